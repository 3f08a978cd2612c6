"""A fake server on 127.0.0.1: in-process (`async with`) or as a separate process."""

import asyncio
import json
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import Self

from aiohttp import web

MAX_BODY_BYTES = 512 * 1024 * 1024


class LoopbackServer:
    """Base of the fake servers; subclasses add routes to `app` before the server is entered.

    `port` 0 takes any free port; `url` is known once the server is entered.
    """

    def __init__(self, port: int = 0) -> None:
        self.app = web.Application(client_max_size=MAX_BODY_BYTES)
        self.port = port
        self._news = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hang_end = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        # End a handler with its client, so that the long poll of a killed process ends too.
        self._runner = web.AppRunner(
            self.app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._stopping.set()
        self.end_hangs()
        self.changed()
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def changed(self) -> None:
        """Wake all tasks that wait for a change."""
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, timeout_s: float) -> None:
        """Return at the next change, or silently after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return

    async def wait_for(self, predicate: Callable[[], object], timeout_s: float = 30.0) -> None:
        """Return once `predicate()` is true; raise AssertionError with the journal on timeout.

        The predicate is checked at every change of this server, and every 20 ms for other changes.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not predicate():
            if loop.time() > deadline:
                raise AssertionError(f"waited {timeout_s:g} s in vain; {self.summary()}")
            await self.news(0.02)

    def summary(self) -> str:
        """Return a summary of the events so far, for the message of a failed test."""
        return type(self).__name__

    async def pause(self, seconds: float) -> None:
        """Sleep, but at most until the server stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def hang(self, request: web.Request) -> web.Response:
        """Do not respond until the client leaves, `end_hangs` is called or the server stops."""
        await self._hang_end.wait()
        return await reset(request)

    def end_hangs(self) -> None:
        """Reset the connections that hang."""
        self._hang_end.set()
        if not self.stopping:
            self._hang_end = asyncio.Event()


async def reset(request: web.Request) -> web.Response:
    """End the connection with a TCP RST; the client sees "connection reset by peer"."""
    transport = request.transport
    if transport is not None:
        sock = transport.get_extra_info("socket")
        # Linger on, time-out zero: close() then sends RST instead of FIN.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    await asyncio.sleep(0)
    return web.Response()


async def serve(server: LoopbackServer) -> None:
    """Run as a process: print `{"port": N}`, then serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    async with server:
        sys.stdout.write(json.dumps({"port": server.port}) + "\n")
        sys.stdout.flush()
        await stop.wait()
