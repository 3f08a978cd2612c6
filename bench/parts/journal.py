"""Cost of a durable write, compared with SQLite alone on the same disk."""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from bench.figure import Figure
from gateway.core.messages import InboundMessage, Sender
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.sqlite.engine import SqliteStore

COMMITS = 300
GROUPED = 50
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "locking_mode=EXCLUSIVE")
_TABLE = "CREATE TABLE bench (n INTEGER PRIMARY KEY, text TEXT NOT NULL)"
_INSERT = "INSERT INTO bench (text) VALUES (?)"
_TEXT = "x" * 300


async def measure(command: Sequence[str]) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="kore-bench-") as folder:
        with BareDisk(Path(folder) / "bare.db") as disk:
            bare = statistics.median(disk.commit_ms() for _ in range(COMMITS)) * 1000
        database = SqliteStore.open(Path(folder) / "kore.db")
        try:
            await database.transact(lambda tx: tx.run(_TABLE))
            single = await _single_us(database)
            accepted = await _accepted_us(database)
            grouped = await _grouped_us(database)
        finally:
            await database.close()
    net = f"{single - bare:.0f} µs net of SQLite's own commit"
    accepting = f"{accepted - bare:.0f} µs net; the message, its key and the poll's cursor"
    together = f"per piece of work, {GROUPED} handed in at once"
    return [
        Figure("journal commit", "µs", single, bare=bare, note=net),
        Figure("an accepted message", "µs", accepted, bare=bare, note=accepting),
        Figure("journal commit, grouped", "µs", grouped, bare=bare, note=together),
    ]


def _insert(tx: Transaction) -> None:
    tx.run(_INSERT, (_TEXT,))


class BareDisk(AbstractContextManager["BareDisk"]):
    """SQLite alone, with the journal's settings, in a separate file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in _PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute(_TABLE)

    def __exit__(self, *exc_info: object) -> None:
        self._connection.close()

    def commit_ms(self) -> float:
        """Return the time of one row in one commit on disk."""
        began = time.perf_counter()
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(_INSERT, (_TEXT,))
        self._connection.execute("COMMIT")
        return (time.perf_counter() - began) * 1000


async def _single_us(database: SqliteStore) -> float:
    result = []
    for _ in range(COMMITS):
        began = time.perf_counter()
        await database.transact(_insert)
        result.append(time.perf_counter() - began)
    return statistics.median(result) * 1e6


async def _accepted_us(database: SqliteStore) -> float:
    result = []
    for n in range(COMMITS):
        message = InboundMessage(
            "telegram", "1", "7", Sender("7", "Ann"), f"7:{n}", _TEXT, time.time()
        )
        arrival = InboxBatch("telegram", "1", time.time(), n + 1)
        began = time.perf_counter()
        await database.transact(inbox.accept, arrival, [InboxEntry(message)])
        result.append(time.perf_counter() - began)
    return statistics.median(result) * 1e6


async def _grouped_us(database: SqliteStore) -> float:
    result = []
    for _ in range(COMMITS // 10):
        began = time.perf_counter()
        await asyncio.gather(*(database.transact(_insert) for _ in range(GROUPED)))
        result.append((time.perf_counter() - began) / GROUPED)
    return statistics.median(result) * 1e6
