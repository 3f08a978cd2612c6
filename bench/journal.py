"""What it costs to have something on disk, next to SQLite alone on the same disk."""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

from bench.figure import Figure
from gateway.messages import InboundMessage, Sender
from gateway.store import inbox
from gateway.store.database import Database
from gateway.store.inbox import Arrival, Entry

COMMITS = 300
GROUPED = 50
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "locking_mode=EXCLUSIVE")
_TABLE = "CREATE TABLE bench (n INTEGER PRIMARY KEY, text TEXT NOT NULL)"
_TEXT = "x" * 300


async def measure(command: Sequence[str]) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="kore-bench-") as folder:
        bare = _bare_us(Path(folder) / "bare.db")
        database = Database.open(Path(folder) / "kore.db")
        try:
            await database.run(lambda connection: connection.execute(_TABLE) and None)
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


def _insert(connection: Connection) -> None:
    connection.execute("INSERT INTO bench (text) VALUES (?)", (_TEXT,))


def _bare_us(path: Path) -> float:
    taken = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.execute(_TABLE)
        for _ in range(COMMITS):
            began = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            _insert(connection)
            connection.execute("COMMIT")
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


async def _single_us(database: Database) -> float:
    taken = []
    for _ in range(COMMITS):
        began = time.perf_counter()
        await database.run(_insert)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


async def _accepted_us(database: Database) -> float:
    taken = []
    for n in range(COMMITS):
        message = InboundMessage(
            "telegram", "1", "7", Sender("7", "Ann"), f"7:{n}", _TEXT, time.time()
        )
        arrival = Arrival("telegram", "1", time.time(), n + 1)
        began = time.perf_counter()
        await database.run(inbox.accept, arrival, [Entry(message)])
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


async def _grouped_us(database: Database) -> float:
    taken = []
    for _ in range(COMMITS // 10):
        began = time.perf_counter()
        await asyncio.gather(*(database.run(_insert) for _ in range(GROUPED)))
        taken.append((time.perf_counter() - began) / GROUPED)
    return statistics.median(taken) * 1e6
