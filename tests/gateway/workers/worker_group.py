"""A front and workers on one database, each a real process with its own home.

async with WorkerGroup(folder, api, model) as group:
    assert await group.answers_to(7, "hi") == ["echo: hi"]
"""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from psycopg.errors import SerializationFailure

from gateway.store.port import Row, Transaction
from gateway.store.postgres.connection import connect
from gateway.store.postgres.transaction import PostgresTransaction
from gateway.store.repositories.delivery import inbox, outbox
from tests import postgres_server
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.gateway import stored
from tests.gateway.end_to_end.gateway_process import TIMEOUT_S, GatewayProcess

# Short enough for a test of a killed worker, and long enough for a busy machine.
LEASE_S = 3.0
_POLL_INTERVAL_S = 0.02
_JOINS, _TAKES_TURNS = " joins ", "taking turns"
_T = TypeVar("_T")
Sections = Mapping[str, Mapping[str, Any]]


class WorkerGroup:
    """A front and workers on the database `url`.

    Entering the context runs all processes; leaving it stops them, and they must exit with 0.
    """

    def __init__(
        self,
        folder: Path,
        api: BotApi,
        model: ModelServer,
        sections: Sections | None = None,
        *,
        count: int = 2,
        url: str | None = None,
    ) -> None:
        self.url = url or postgres_server.create_database()
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self._folder, self.api, self.model = folder, api, model
        self._sections: dict[str, dict[str, Any]] = {
            name: dict(values) for name, values in (sections or {}).items()
        }
        self._sections["store"] = {"url": self.url, "lease_s": LEASE_S}
        agent = self._sections.get("agent", {})
        self._sections["agent"] = {**agent, "workspace": str(self.workspace)}
        self.front = self.process("front", "gateway", ["--workers", "0"])
        # Tests of approvals look for files here.
        self.front.workspace = self.workspace
        self.workers = [self.process(f"worker{n}", "worker") for n in range(1, count + 1)]
        # Number of times each worker had joined before its current process started.
        self._lives: dict[Path, int] = {}

    def process(
        self, name: str, verb: str, words: Sequence[str] = (), *, forked: bool = True
    ) -> GatewayProcess:
        """Return another process on the same database, not yet started."""
        machine = self._folder / name
        machine.mkdir()
        return GatewayProcess(
            *(machine, self.api, self.model, self._sections),
            verb=verb,
            words=words,
            runtime_dir=machine,
            forked=forked,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None:
                await self.stop()
        finally:
            for worker in (*self.workers, self.front):
                if worker.runs:
                    worker.signal(signal.SIGKILL)
                    await worker.exit_code()
        if kind is None:
            for worker in (self.front, *self.workers):
                worker.check_clean()

    async def start(self) -> None:
        """Start all processes and wait until the workers take turns."""
        await self.front.start()
        if self.workers:
            await self.start_workers()

    async def start_workers(self, *workers: GatewayProcess) -> None:
        for worker in workers or self.workers:
            await self.launch(worker)
        for worker in workers or self.workers:
            await worker.until(lambda worker=worker: self.is_at_work(worker))

    async def launch(self, worker: GatewayProcess) -> None:
        self._lives[worker.home] = worker.output().count(_JOINS)
        await worker.launch()

    async def stop(self) -> None:
        """Send SIGTERM; all running processes must exit with 0."""
        workers = [worker for worker in self.workers if worker.runs]
        for worker in workers:
            worker.signal(signal.SIGTERM)
        for worker in workers:
            assert await worker.exit_code() == 0, worker.log_text()
        if self.front.runs:
            await self.front.stop()

    def is_at_work(self, worker: GatewayProcess) -> bool:
        """Return whether the current process has joined and found a front."""
        *_, latest_output = worker.output().split(_JOINS)
        has_joined = worker.output().count(_JOINS) > self._lives[worker.home]
        return has_joined and _TAKES_TURNS in latest_output

    def number(self, worker: GatewayProcess) -> int:
        """Return the worker's number in the database."""
        before, *_ = worker.output().rpartition(_JOINS)
        return int(before.rpartition(" ")[2])

    def worker_with(self, number: int) -> GatewayProcess:
        numbers = {self.number(worker): worker for worker in self.workers if worker.runs}
        assert number in numbers, f"no worker {number} of {list(numbers)} runs"
        return numbers[number]

    async def kill(self, worker: GatewayProcess) -> None:
        worker.signal(signal.SIGKILL)
        await worker.exit_code()

    async def idle(self) -> None:
        """Wait until all messages are answered by any process and all answers are sent."""
        await self.until(self._is_idle)

    async def answers_to(self, chat: int, text: str, **more: Any) -> list[str]:
        """Send a message and return the chat's bot messages once all work is done."""
        await self.api.user_says(chat, text, **more)
        await self.idle()
        return self.api.answers(chat)

    async def _is_idle(self) -> bool:
        if self.api.pending_updates or await asyncio.to_thread(self._read, _has_work):
            return False
        status = await self.front.status()
        return not (status["lanes_busy"] or status["routes_with_mail"])

    async def rows(self, table: str, *columns: str, **where: Any) -> list[Row]:
        """Return current rows of the database (see `tests.gateway.stored.read`)."""
        return await asyncio.to_thread(
            self._read, lambda tx: stored.read(tx, table, *columns, **where)
        )

    def _read(self, read: Callable[[Transaction], _T]) -> _T:
        """Read in a transaction, which is repeated if concurrent writes abort it."""
        with closing(connect(self.url)) as server:
            while True:
                with suppress(SerializationFailure):
                    return read(PostgresTransaction(server))

    async def session_of(self, chat: int) -> str:
        """Return the session of the last turn in a private chat."""
        lane = stored.like(f"%:{chat}")
        rows = await self.rows("turn", "session", lane=lane, order="id DESC")
        return str(rows[0][0])

    async def holder(self, chat: int) -> GatewayProcess:
        """Return the worker that runs the live turn of a private chat."""
        number = None

        async def is_held() -> bool:
            nonlocal number
            lane = stored.like(f"%:{chat}")
            rows = await self.rows("turn", "worker", lane=lane, is_claimed=1, state="running")
            number = rows[0][0] if rows else None
            return number is not None

        await self.until(is_held)
        assert number is not None
        return self.worker_with(number)

    async def until(self, reached: Callable[[], Awaitable[object]]) -> None:
        """Wait for an asynchronous condition."""
        deadline = time.monotonic() + TIMEOUT_S
        while not await reached():
            logs = [worker.log_text() for worker in (self.front, *self.workers)]
            assert time.monotonic() < deadline, "\n".join(["waited in vain", *logs])
            await asyncio.sleep(_POLL_INTERVAL_S)


def _has_work(tx: Transaction) -> bool:
    # In the order in which a message passes through them.
    return bool(
        inbox.waiting_count(tx)
        or stored.count(tx, "turn", state="running")
        or outbox.lanes_with_mail(tx)
    )
