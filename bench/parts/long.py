"""Cost of a session of 10,000 messages compared with 100: opening it, and a turn in it.

The session is as in practice: older messages are summarized, and their rows remain.
"""

import statistics
import time
from collections.abc import Sequence
from contextlib import closing

from agent.context.compaction.compactor import CompactionResult, SplitPoint
from agent.context.compaction.summarizer import Summary
from agent.types import Message, assistant, user
from bench.figure import Figure
from bench.stage import ACCOUNT, OWNER, open_stage
from gateway.sessions import lookup
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import session_admin, sessions
from gateway.store.repositories.execution import windows
from gateway.store.repositories.execution.windows import StoredSummary
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.transaction import SqliteTransaction

LENGTHS = (100, 10_000)
KEPT = 60
TURNS = 25
WARM_UPS = 2
OPENINGS = 30
LAST_WORDS = 6


async def measure(command: Sequence[str]) -> list[Figure]:
    async with open_stage(command) as stage:
        async with stage.gateway():
            pass  # creates the database
        with closing(connect(stage.home / "kore.db")) as connection:
            tx = SqliteTransaction(connection)
            result = [store_talk(tx, OWNER + n, length) for n, length in enumerate(LENGTHS)]
            imported_ms = [_open_ms(tx, session) for session in result]
            for session in result:
                summarize_talk(tx, session)
            opened = [_open_ms(tx, session) for session in result]
        async with stage.gateway():
            turns = await stage.turns_of_each(len(LENGTHS), WARM_UPS, TURNS)
    imported = statistics.median(imported_ms[-1])
    short, long = (statistics.median(times) for times in opened)
    short_turn, long_turn = (statistics.median(times) for times in turns)
    shortest, longest = LENGTHS
    note = f"at {shortest:,} messages {short:.1f} ms"
    imported_note = f"none of them in a summary: the newest {windows.MOST // 2:,} are read"
    turn_note = f"{long_turn:.1f} ms to {short_turn:.1f} ms; both send the newest {KEPT}"
    return [
        Figure(f"opening {longest:,} messages", "ms", long, goal=100, note=note),
        Figure(f"opening {longest:,} imported", "ms", imported, goal=100, note=imported_note),
        Figure(
            f"a turn at {longest:,} to {shortest:,}",
            "times",
            long_turn / short_turn,
            goal=1.2,
            note=turn_note,
        ),
    ]


def store_talk(tx: Transaction, chat: int, length: int) -> str:
    """Store a conversation of `length` messages."""
    messages: list[Message] = []
    for n in range(length // 2):
        messages.append(user(f"Question {n}: what should I know about topic number {n} today?"))
        messages.append(assistant(f"Answer {n}: " + "this is what there is to say about it. " * 3))
    now, lane = time.time(), f"telegram:{ACCOUNT}:{chat}"
    tx.run("BEGIN")
    session = sessions.create_session(tx, f"telegram:{chat}", now, lane=lane)
    sessions.append_messages(tx, session, None, messages, now)
    tx.run("COMMIT")
    return session


def summarize_talk(tx: Transaction, session: str) -> None:
    """Replace all but the newest messages with a summary."""
    tx.run("BEGIN")
    window = windows.load(tx, session)
    summary = Summary(
        "They asked about topics, one after the other. " * 20, ("What should I know?",)
    )
    shorter = CompactionResult(0, SplitPoint(len(window.messages) - KEPT), summary, 2, 1)
    assert windows.keep(tx, StoredSummary.of(session, window, shorter), time.time())
    assert len(windows.load(tx, session).messages) == KEPT
    tx.run("COMMIT")


def _open_ms(tx: Transaction, session: str) -> list[float]:
    """Run the queries of `kore agent -r`: list of sessions, session, last messages and window."""
    result = []
    for _ in range(OPENINGS):
        began = time.perf_counter()
        sessions.recent(tx, 20)
        windows.load(tx, lookup.find(tx, session))
        session_admin.preview(tx, session, 0, LAST_WORDS)
        result.append((time.perf_counter() - began) * 1000)
    return result
