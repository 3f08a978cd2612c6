"""A line between a client and a server on loopback that can be held up and cut."""

import asyncio
from contextlib import suppress
from typing import Self

_CHUNK_BYTES = 65_536


class CuttingProxy:
    """`async with CuttingProxy(port) as proxy`: what connects to `proxy.port` reaches `port`.

    After `hold` nothing of the server's reaches a client any more, while the server goes on
    writing; `cut` drops that and every connection, and lets new ones through.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._passes = asyncio.Event()
        self._passes.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def hold(self) -> None:
        self._passes.clear()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._passes = asyncio.Event()
        self._passes.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            there, back = await asyncio.open_connection("127.0.0.1", self._server_port)
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
