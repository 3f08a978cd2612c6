"""Server-sent events in the format of both APIs."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from agent.serialization import dumps

_HEADERS = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
# A proxy may close a connection after a minute without data.
_KEEPALIVE_INTERVAL_S = 5.0


class ServerSentEvents:
    """Event stream: `async with ServerSentEvents(request) as stream`.

    It ends with `data: [DONE]`. Raises `ConnectionError` once the client has disconnected.
    """

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        self._request = request
        self._written_at = 0.0
        self.response = web.StreamResponse(headers={**_HEADERS, **headers})

    async def __aenter__(self) -> Self:
        await self.response.prepare(self._request)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            await self._write("data: [DONE]\n\n")
            await self.response.write_eof()

    async def send(self, data: Mapping[str, Any], event: str = "") -> None:
        head = f"event: {event}\n" if event else ""
        await self._write(f"{head}data: {dumps(data)}\n\n")

    async def keep_alive(self) -> None:
        """Send a comment, which clients ignore, after a period without data.

        This also detects a disconnected client.
        """
        self._check()
        if time.monotonic() - self._written_at >= _KEEPALIVE_INTERVAL_S:
            await self._write(": \n\n")

    async def _write(self, text: str) -> None:
        self._check()
        self._written_at = time.monotonic()
        await self.response.write(text.encode())

    def _check(self) -> None:
        if has_left(self._request):
            raise ConnectionResetError("the client has disconnected")


def has_left(request: web.Request) -> bool:
    """Return whether the client has closed the connection."""
    return request.transport is None or request.transport.is_closing()
