"""The loopback page for supervisors: `/healthz` says whether all is well, `/metrics` counts."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from agent.errors import ConfigError
from gateway.facts import resident_bytes
from gateway.service import Upkeep

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_STATES = {"starting", "polling", "retrying"}
_PROMETHEUS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
Counts = Callable[[], Mapping[str, float]]


@asynccontextmanager
async def serve_health(host: str, port: int, upkeep: Upkeep, counts: Counts) -> AsyncIterator[None]:
    """Answer until the block ends. Raises `ConfigError` when the address cannot be had.

    `counts` are the monotonic counters; what /metrics shows besides comes from `upkeep.status`.
    """
    if host not in _LOOPBACK:
        raise ConfigError(
            f"http.host: found {host!r}, expected a loopback address",
            hint="This page has no login. Put a proxy in front, or ask it inside the container.",
        )

    async def healthz(request: web.Request) -> web.Response:
        status = await upkeep.status()
        broken = [name for name, way in status["channels"].items() if way["state"] not in _STATES]
        if status["obstacle"]:
            broken.append("intake")
        body = {"status": "degraded" if broken else "ok", "broken": broken}
        return web.json_response(body, status=503 if broken else 200)

    async def metrics(request: web.Request) -> web.Response:
        lines = list(_lines(await upkeep.status(), counts()))
        return web.Response(body="\n".join(lines).encode() + b"\n", headers=_PROMETHEUS)

    app = web.Application(middlewares=[_own_host_only])
    app.add_routes([web.get("/healthz", healthz), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as exc:
            reason = os.strerror(exc.errno) if exc.errno else str(exc)
            raise ConfigError(
                f"http.port: {host}:{port} cannot be used: {reason}",
                hint="Choose another port (KORE_HTTP_PORT), or 0 for any.",
            ) from None
        yield
    finally:
        await runner.cleanup()


@web.middleware
async def _own_host_only(
    request: web.Request, handler: Callable[[web.Request], Any]
) -> web.StreamResponse:
    """A page in somebody's browser must not read this through a name that points here."""
    host = request.host.rpartition(":")[0] or request.host
    if host.strip("[]") not in _LOOPBACK:
        raise web.HTTPForbidden(text="ask by a loopback address\n")
    response: web.StreamResponse = await handler(request)
    return response


def _lines(status: Mapping[str, Any], counts: Mapping[str, float]) -> Iterator[str]:
    """The text format of prometheus.io/docs/instrumenting/exposition_formats."""
    for name, value in counts.items():
        yield f"# TYPE kore_{name}_total counter"
        yield f"kore_{name}_total {value}"
    gauges = {
        "uptime_seconds": status["uptime_s"],
        "lanes_busy": status["lanes_busy"],
        "messages_waiting": status["messages_waiting"],
        "routes_with_mail": status["routes_with_mail"],
        "resident_memory_bytes": resident_bytes(),
    }
    for name, value in gauges.items():
        yield f"# TYPE kore_{name} gauge"
        yield f"kore_{name} {value}"
    yield "# TYPE kore_channel_up gauge"
    for name, way in status["channels"].items():
        yield f'kore_channel_up{{channel="{name}"}} {int(way["state"] == "polling")}'
