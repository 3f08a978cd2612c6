"""Benchmark of concurrent claims by many processes: `python -m bench.workers.race`.

Counts retries of claims, both with one shared lane and with a lane per worker, and both for the
current statements and for a variant that first locks the row of the first message (FOR UPDATE SKIP
LOCKED).
"""

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import psycopg

from agent.types import Message, Text
from gateway.core.messages import InboundMessage, Sender
from gateway.store.port import Transaction
from gateway.store.postgres import worker_table
from gateway.store.postgres.connection import connect
from gateway.store.postgres.lease import begin
from gateway.store.postgres.transaction import PostgresTransaction
from gateway.store.repositories import active_channels
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.execution import claims
from gateway.store.repositories.execution.claims import ClaimScope, TurnClaim
from tests.postgres_server import PostgresServer

ROUNDS = 40
RACERS = (2, 4, 8)
_LOST = ("40001", "40P01", "23505")
_LOCK = (
    "SELECT seq FROM inbox WHERE lane = ? AND turn_id IS NULL AND dead_reason IS NULL"
    " ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED"
)


@dataclass(slots=True)
class Tally:
    """Totals of all rounds: claims won, transactions retried, and milliseconds until the claim."""

    won: int = 0
    reruns: int = 0
    took_ms: list[float] = field(default_factory=list)


def race(address: str, racers: int, *, one_lane: bool, locks: bool, name: str) -> Tally:
    """Let `racers` workers claim at the same moment, over their own connections, `ROUNDS` times."""
    tally, guard, barrier = Tally(), threading.Lock(), threading.Barrier(racers)
    with closing(connect(address)) as connection:
        active_channels.limit(PostgresTransaction(connection), active_channels.ALL)
        lanes = [
            [
                _new_lane(connection, f"{name}-{n}-{0 if one_lane else racer}")
                for racer in range(racers)
            ]
            for n in range(ROUNDS)
        ]

    def run(racer: int) -> None:
        with closing(connect(address)) as connection:
            number = worker_table.add(connection, name)
            for row in lanes:
                barrier.wait()
                began = time.perf_counter()
                won, reruns = _claim(connection, number, row[racer], locks=locks)
                with guard:
                    tally.won += won
                    tally.reruns += reruns
                    if won:
                        tally.took_ms.append((time.perf_counter() - began) * 1000)

    threads = [threading.Thread(target=run, args=(racer,)) for racer in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def _new_lane(connection: "psycopg.Connection[tuple[object, ...]]", chat: str) -> str:
    message = InboundMessage("telegram", "9", chat, Sender("1"), chat, "hi", 0.0)
    with connection.transaction():
        tx = PostgresTransaction(connection)
        inbox.accept(tx, InboxBatch("telegram", "9", 0.0), [InboxEntry(message)])
        if sessions.bound_session(tx, message.session_key) is None:
            sessions.create_session(tx, message.principal, 0.0, lane=message.session_key)
    return message.session_key


def _claim(
    connection: "psycopg.Connection[tuple[object, ...]]", number: int, lane: str, *, locks: bool
) -> tuple[bool, int]:
    """Return whether this worker has claimed the lane's turn, and its number of retries."""
    reruns, fence = 0, worker_table.fence(number)
    while True:
        try:
            begin(connection, fence)
            won = _try(PostgresTransaction(connection), number, lane, locks=locks)
            connection.execute("COMMIT")
        except psycopg.Error as exc:
            connection.execute("ROLLBACK")
            if exc.sqlstate not in _LOST:
                raise
            reruns += 1
        else:
            return won, reruns


def _try(tx: Transaction, number: int, lane: str, *, locks: bool) -> bool:
    if locks and tx.first(_LOCK, (lane,)) is None:
        return False
    claim = claims.claim(tx, lane, 0.0, lambda message: False, _user_message, ClaimScope(number))
    return isinstance(claim, TurnClaim)


def _user_message(messages: Sequence[InboundMessage], mode: str | None) -> Message:
    return Message("user", (Text(messages[0].content),))


def main() -> None:
    server = PostgresServer()
    try:
        print("| workers | lanes | lock | claims | re-runs per claim | ms, median |")
        print("| --- | --- | --- | --- | --- | --- |")
        for one_lane in (True, False):
            for racers in RACERS:
                for locks in (False, True):
                    address = server.create_database()
                    tally = race(
                        address, racers, one_lane=one_lane, locks=locks, name=f"r{racers}{locks}"
                    )
                    took_ms = sorted(tally.took_ms)[len(tally.took_ms) // 2]
                    lanes = "the same" if one_lane else "each its own"
                    lock = "SKIP LOCKED" if locks else "none"
                    cells = (racers, lanes, lock, tally.won, f"{tally.reruns / tally.won:.2f}")
                    print(f"| {' | '.join(map(str, cells))} | {took_ms:.1f} |")
    finally:
        server.close()


if __name__ == "__main__":
    main()
