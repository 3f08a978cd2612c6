"""HTTP server for webhooks of chat platforms and for the health pages.

Used only if a channel has a webhook. Otherwise `health.py` serves the two pages with less memory
than aiohttp's server needs.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from logging import getLogger

from aiohttp import web

from agent.errors import ConfigError
from agent.i18n import t
from gateway.channels.base import HookCall, SupportsWebhook
from gateway.control.health import Page
from gateway.control.request_logger import RequestLogger

_log = getLogger(__name__)

# Updates are a few kilobytes; the largest observed were below 100 KB.
BODY_LIMIT_BYTES = 1024 * 1024
# Function that returns the page for the lines of a request head, like `health.answer` with its
# pages.
Pages = Callable[[list[str]], Awaitable[Page]]


@asynccontextmanager
async def serve_webhooks(
    host: str, port: int, pages: Pages, channels: Mapping[str, SupportsWebhook]
) -> AsyncIterator[int]:
    """Serve while the context is open, and yield the port.

    `channels` maps webhook paths to channels. Raises `ConfigError` if the address cannot be used.
    """

    async def answer(request: web.Request) -> web.Response:
        channel = channels.get(request.path)
        if channel is not None:
            headers = {name.lower(): value for name, value in request.headers.items()}
            call = HookCall(request.method, headers, request.query, await request.read())
            reply = await channel.handle_call(call)
            return web.Response(
                status=reply.status, body=reply.body, content_type=reply.content_type
            )
        fields = [f"{name}: {value}" for name, value in request.headers.items()]
        status, kind, text = await pages([f"{request.method} {request.path_qs} HTTP/1.1", *fields])
        return web.Response(status=status, text=text, headers={"Content-Type": kind})

    app = web.Application(client_max_size=BODY_LIMIT_BYTES)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=RequestLogger(_log),
        handle_signals=False,
        shutdown_timeout=1.0,
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as exc:
            reason = os.strerror(exc.errno) if exc.errno else str(exc)
            raise ConfigError(
                t(
                    "http.port: {host}:{port} cannot be used: {reason}",
                    host=host,
                    port=port,
                    reason=reason,
                ),
                hint=t(
                    "Choose another port (KORE_HTTP_PORT), and update the proxy in front of Kore."
                ),
            ) from None
        bound_port: int = runner.addresses[0][1]
        for path in channels:
            _log.info("listening for webhooks at http://%s:%d%s", host, bound_port, path)
        yield bound_port
    finally:
        await runner.cleanup()
