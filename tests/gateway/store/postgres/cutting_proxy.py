"""Proxy to the server on a Unix socket, which cuts or stalls connections at a chosen moment.

It runs in a separate thread, since opening a store blocks the caller.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Literal, TypeVar

T = TypeVar("T")

Moment = Literal["never", "before", "after"]
_SOCKET = ".s.PGSQL.5432"


class CuttingProxy:
    """Proxy with a fault for the next COMMIT, after which it works as before.

    `cut_at` selects the fault: COMMIT never reaches the server ("before"), or its answer never
    comes back ("after").
    """

    def __init__(self, server: Path, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.folder, self.loop = folder, loop
        self._server = server / _SOCKET
        self.cut_at: Moment = "never"
        self.cuts = 0
        # New connections are refused while this is set.
        self.is_down = False
        self._writers: set[asyncio.StreamWriter] = set()
        # Cleared while traffic is stalled.
        self._passes = asyncio.Event()
        self._passes.set()

    def address(self, database: str) -> str:
        return f"postgresql://kore@/{database}?host={self.folder}"

    def cut_all(self) -> None:
        """Abort all connections before returning."""

        async def abort() -> None:
            for writer in self._writers:
                writer.transport.abort()

        asyncio.run_coroutine_threadsafe(abort(), self.loop).result()

    def stall(self) -> None:
        """Stop traffic in both directions until `resume`."""
        self.loop.call_soon_threadsafe(self._passes.clear)

    def resume(self) -> None:
        self.loop.call_soon_threadsafe(self._passes.set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.close()
            return
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self._server)
        except OSError:
            # The server is unavailable, as it would be for a direct client.
            writer.close()
            return
        ends = {writer, server_writer}
        self._writers |= ends
        answers = _Answers(server_reader, writer, self._passes)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._to_server(reader, server_writer, answers))
                group.create_task(answers.pass_on())
        except* (OSError, _Cut):
            pass
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _to_server(
        self, reader: asyncio.StreamReader, server_writer: asyncio.StreamWriter, answers: "_Answers"
    ) -> None:
        while data := await reader.read(65536):
            await self._passes.wait()
            if b"COMMIT" in data and self.cut_at != "never":
                moment, self.cut_at = self.cut_at, "never"
                self.cuts += 1
                if moment == "after":
                    answers.hold_back()
                    server_writer.write(data)
                    await answers.held_back.wait()
                raise _Cut
            server_writer.write(data)
            await server_writer.drain()
        raise _Cut


class _Answers:
    """The server's answers on one connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event
    ) -> None:
        self._reader, self._writer, self._passes = reader, writer, passes
        self._is_mute = False
        # Set once an answer was withheld.
        self.held_back = asyncio.Event()

    def hold_back(self) -> None:
        """Withhold all further answers."""
        self._is_mute = True

    async def pass_on(self) -> None:
        while data := await self._reader.read(65536):
            if self._is_mute:
                self.held_back.set()
                continue
            await self._passes.wait()
            self._writer.write(data)
            await self._writer.drain()
        raise _Cut


class _Cut(Exception):
    """One end is closed."""


@contextmanager
def cutting_proxy(server: Path, folder: Path) -> Iterator[CuttingProxy]:
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    proxy = CuttingProxy(server, folder, loop)

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    listener = run(asyncio.start_unix_server(proxy.serve, folder / _SOCKET))
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(listener.close)
        proxy.cut_all()
        run(_end_tasks())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
