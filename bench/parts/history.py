"""Cost of a long conversation: turns at 10, 200 and 1,000 messages of history.

A long request takes longer in any program, so the bare request with the same body is measured as
well, and subtracted.
"""

import statistics
import time
from collections.abc import Sequence
from contextlib import closing

from agent.types import Message, assistant, user
from bench.figure import Figure
from bench.stage import ACCOUNT, OWNER, Server, Stage, open_stage
from gateway.store.repositories.conversations import sessions
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.transaction import SqliteTransaction

LENGTHS = (10, 200, 1_000)
TURNS = 25
WARM_UPS = 2


async def measure(command: Sequence[str]) -> list[Figure]:
    async with open_stage(command) as stage:
        async with stage.gateway():
            pass  # creates the database
        for n, length in enumerate(LENGTHS):
            _prepare(stage, OWNER + n, length)
        async with stage.gateway():
            turns = await stage.turns_of_each(len(LENGTHS), WARM_UPS, TURNS)
        result = await stage.model.get("requests", since=0)
        bodies = [request["raw"].encode() for request in result]
        bare = await _bare(stage.model, bodies)
    net = {}
    figures = []
    for n, length in enumerate(LENGTHS):
        turn_ms, bare_ms = statistics.median(turns[n]), statistics.median(bare[n])
        net[length] = turn_ms - bare_ms
        name = f"turn at {length:,} messages"
        size_kb = len(bodies[n - len(LENGTHS)]) / 1000
        note = f"{net[length]:.1f} ms of its own; the request is {size_kb:.0f} kB"
        figures.append(Figure(name, "ms", turn_ms, bare=bare_ms, note=note))
    shortest, longest = LENGTHS[0], LENGTHS[-1]
    growth = net[longest] / net[shortest]
    note = "turn less bare request, at the longest history to the same at the shortest"
    return [*figures, Figure("growth with history", "times", growth, goal=1.3, note=note)]


def _prepare(stage: Stage, chat: int, length: int) -> None:
    """Store a conversation of `length` messages in the journal."""
    messages: list[Message] = []
    for n in range(length // 2):
        messages.append(user(f"Question {n}: what should I know about topic number {n} today?"))
        messages.append(assistant(f"Answer {n}: " + "this is what there is to say about it. " * 3))
    with closing(connect(stage.home / "kore.db")) as connection:
        tx = SqliteTransaction(connection)
        now = time.time()
        lane = f"telegram:{ACCOUNT}:{chat}"
        session = sessions.create_session(tx, f"telegram:{chat}", now, lane=lane)
        tx.run("BEGIN")
        sessions.append_messages(tx, session, None, messages, now)
        tx.run("COMMIT")


async def _bare(model: Server, bodies: Sequence[bytes]) -> list[list[float]]:
    """Repeat the same requests over a persistent connection."""
    results: list[list[float]] = [[] for _ in LENGTHS]
    headers = {"Content-Type": "application/json"}
    url = f"{model.url}/v1/chat/completions"
    for n, body in enumerate(bodies):
        began = time.perf_counter()
        async with model.session.post(url, data=body, headers=headers) as response:
            await response.read()
        if n >= WARM_UPS * len(LENGTHS):
            results[n % len(LENGTHS)].append((time.perf_counter() - began) * 1000)
    return results
