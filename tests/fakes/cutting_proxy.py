"""A line between a client and a server on loopback that can be held up and cut."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Self

_CHUNK_BYTES = 65_536


class CuttingProxy:
    """`async with CuttingProxy(port) as proxy`: what connects to `proxy.port` reaches `port`; in
    place of ports, `CuttingProxy(socket, place)` has the paths of two sockets.

    After `hold` nothing of the server's reaches a client any more, while the server goes on
    writing; `cut` drops that and every connection, and lets new ones through.
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
        """Take no more clients; those that there are stay."""
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
