"""Databases of the crash loop: SQLite's file, or a PostgreSQL server that fails.

While a gateway works on the server, one of these faults occurs at some moment:

    server killed    SIGKILL for all processes of PostgreSQL; it is restarted a moment later
    connections cut  all at once, in any state
    commit cut       before the server has received a commit, or before its answer has arrived
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from gateway.store.port import Row
from tests.gateway import stored
from tests.gateway.store.postgres.cutting_proxy import CuttingProxy, cutting_proxy
from tests.postgres_server import PostgresServer

# Short enough that most processes meet at least one fault.
_UNTIL_S = 0.8
_DOWN_S = 0.3
_POLL_INTERVAL_S = 0.003
_KINDS = ("server killed", "connections cut", "commit cut before", "commit cut after")


class CrashDatabase(Protocol):
    """Database interface that the loop uses."""

    # Number of faults of each kind.
    faults: Counter[str]

    @property
    def section(self) -> dict[str, Any]:
        """Return the `store` section of the gateway's configuration."""
        ...

    def failing(self) -> AbstractAsyncContextManager[None]:
        """Inject faults within the block; on exit the database works again."""
        ...

    def rows(self, table: str, *columns: str, **where: Any) -> list[Row]:
        """Return rows; use it only while no gateway runs."""
        ...


class SqliteFile:
    """Implementation of `CrashDatabase` without faults."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.faults = Counter[str]()

    @property
    def section(self) -> dict[str, Any]:
        return {"url": f"sqlite:///{self._file}"}

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[None]:
        yield

    def rows(self, table: str, *columns: str, **where: Any) -> list[Row]:
        return stored.read_sqlite(self._file, table, *columns, **where)


class FailingServer:
    """Implementation of `CrashDatabase` on a PostgreSQL server that fails."""

    def __init__(self, server: PostgresServer, proxy: CuttingProxy, chance: random.Random) -> None:
        self._server, self._proxy, self._chance = server, proxy, chance
        self._address = server.create_database()
        self._database = self._address.partition("kore@/")[2].partition("?")[0]
        self.faults = Counter[str]()

    @property
    def section(self) -> dict[str, Any]:
        return {"url": self._proxy.address(self._database)}

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[None]:
        kind, is_over = self._chance.choice(_KINDS), asyncio.Event()
        moment_s, down_s = self._chance.uniform(0, _UNTIL_S), self._chance.uniform(0, _DOWN_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fail(kind, moment_s, down_s, is_over))
            try:
                yield
            finally:
                is_over.set()
        # Inject no fault while a gateway is starting: it would exit and rely on its supervisor for
        # a restart.
        self._proxy.cut_at = "never"

    def rows(self, table: str, *columns: str, **where: Any) -> list[Row]:
        return stored.read_postgres(self._address, table, *columns, **where)

    async def _fail(
        self, kind: str, moment_s: float, down_s: float, is_over: asyncio.Event
    ) -> None:
        if await _is_set_within(is_over, moment_s):
            return
        if kind == "connections cut":
            await asyncio.to_thread(self._proxy.cut_all)
        elif kind == "server killed":
            await asyncio.to_thread(self._server.kill)
            await _is_set_within(is_over, down_s)
            await asyncio.to_thread(self._server.start)
        else:
            cuts = self._proxy.cuts
            self._proxy.cut_at = "before" if kind.endswith("before") else "after"
            while self._proxy.cuts == cuts:
                if await _is_set_within(is_over, _POLL_INTERVAL_S):
                    return
        self.faults[kind] += 1


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


@contextmanager
def database_of(store: str, folder: Path, chance: random.Random) -> Iterator[CrashDatabase]:
    """Yield a new database of this engine; a server runs until the end of the block."""
    if store == "sqlite":
        yield SqliteFile(folder / "home" / "kore.db")
        return
    server = PostgresServer(is_durable=True)
    with closing(server), cutting_proxy(server.folder, folder) as proxy:
        yield FailingServer(server, proxy, chance)
