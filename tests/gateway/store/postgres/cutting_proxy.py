"""Between a client and the server, on a Unix socket: cuts connections at a chosen moment, or stalls
them.

It runs in a thread of its own, since a store is opened by one that waits.
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
    """`cut_at` says what becomes of the next COMMIT: it never reaches the server ("before"), or it
    does and its answer never comes back ("after"). Then all goes on as before."""

    def __init__(self, server: Path, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.folder, self.loop = folder, loop
        self._server = server / _SOCKET
        self.cut_at: Moment = "never"
        self.cuts = 0
        # Set: new connections are refused.
        self.is_down = False
        self._writers: set[asyncio.StreamWriter] = set()
        # Cleared while nothing passes.
        self._passes = asyncio.Event()
        self._passes.set()

    def address(self, database: str) -> str:
        return f"postgresql://kore@/{database}?host={self.folder}"

    def cut_all(self) -> None:
        """All connections are gone when it returns."""

        async def abort() -> None:
            for writer in self._writers:
                writer.transport.abort()

        asyncio.run_coroutine_threadsafe(abort(), self.loop).result()

    def stall(self) -> None:
        """Nothing passes, either way, until `go_on`."""
        self.loop.call_soon_threadsafe(self._passes.clear)

    def go_on(self) -> None:
        self.loop.call_soon_threadsafe(self._passes.set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.close()
            return
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self._server)
        except OSError:
            # The server is away, as it is for whoever asks it directly.
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
            for one in ends:
                one.transport.abort()

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
    """What the server says on one connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event
    ) -> None:
        self._reader, self._writer, self._passes = reader, writer, passes
        self._is_mute = False
        # Set once there was an answer that was not passed on.
        self.held_back = asyncio.Event()

    def hold_back(self) -> None:
        """From now on nothing is passed on."""
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
    """One end is gone."""


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
