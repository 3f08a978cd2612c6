"""Loopback proxy between a client and a server that can pause or cut connections."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Self

_CHUNK_BYTES = 65_536


class CuttingProxy:
    """Proxy from `proxy.port` to a server: `async with CuttingProxy(port) as proxy`.

    `CuttingProxy(socket, place)` takes the paths of two sockets instead of ports.

    After `hold`, no data from the server reaches a client, while the server continues to write.
    `cut` drops that data and every connection, and accepts new connections.
    """

    def __init__(self, server: int | Path, place: Path | None = None) -> None:
        self._there, self._place = server, place
        self._passes = asyncio.Event()
        self._passes.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        if self._place is not None:
            self._server = await asyncio.start_unix_server(self._serve, self._place)
        else:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def close(self) -> None:
        """Stop accepting clients; existing connections stay open."""
        self._server.close()

    def hold(self) -> None:
        self._passes.clear()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._passes = asyncio.Event()
        self._passes.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            if isinstance(self._there, Path):
                there, back = await asyncio.open_unix_connection(self._there)
            else:
                there, back = await asyncio.open_connection("127.0.0.1", self._there)
            self._writers |= {writer, back}
            try:
                async with asyncio.TaskGroup() as group:
                    up = group.create_task(_pass(reader, back))
                    down = group.create_task(_pass(there, writer, self._passes))
                    await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
                    up.cancel()
                    down.cancel()
            finally:
                self._writers -= {writer, back}
                writer.close()
                back.close()


async def _pass(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    passes: asyncio.Event | None = None,
) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            if passes is not None:
                await passes.wait()
            writer.write(data)
            await writer.drain()
