"""Cost of a message in a database with 200,000 turns, compared with an empty one."""

import asyncio
import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path

from bench.figure import Figure
from bench.process import Running
from bench.stage import ACCOUNT, OWNER, Stage, open_stage
from gateway.core.messages import InboundMessage, Sender
from gateway.store.port import Transaction
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.transaction import SqliteTransaction

STORED_TURNS = 200_000
CHATS = 500
TURNS = 150
WARM_UPS = 5
_DAY_S = 86_400.0
_MONTHS_AGO = 1_770_000_000.0


async def measure(command: Sequence[str]) -> list[Figure]:
    async with AsyncExitStack() as stack:
        stages = [await stack.enter_async_context(open_stage(command)) for _ in range(2)]
        for stage in stages:
            async with stage.gateway():
                pass  # creates the database
        await asyncio.to_thread(fill, stages[1].home / "kore.db")
        running = [await stack.enter_async_context(stage.gateway()) for stage in stages]
        result, cpu = await _converse(stages, running)
    empty, large = (statistics.median(times) for times in result)
    note = f"{large:.1f} ms to {empty:.1f} ms, in turns; {STORED_TURNS:,} turns in {CHATS} chats"
    cpu_note = f"{cpu[1]:.1f} ms to {cpu[0]:.1f} ms"
    name = f"a message after {STORED_TURNS:,} turns"
    return [
        Figure(name, "times", large / empty, goal=1.2, note=note),
        Figure(f"{name}, CPU", "times", cpu[1] / cpu[0], goal=1.2, note=cpu_note),
    ]


async def _converse(
    stages: Sequence[Stage], running: Sequence[Running]
) -> tuple[list[list[float]], list[float]]:
    """Return the milliseconds of each turn and the CPU of a turn.

    Both gateways alternate, so that a busy machine affects them equally.
    """
    results: list[list[float]] = [[] for _ in stages]
    since = [await stage.effects() for stage in stages]
    began = [0.0 for _ in stages]
    for n in range(WARM_UPS + TURNS):
        if n == WARM_UPS:
            began = [item.cpu_ms() for item in running]
        for i, stage in enumerate(stages):
            elapsed_ms, since[i] = await stage.turn_ms(OWNER, f"message {n}", since[i])
            if n >= WARM_UPS:
                results[i].append(elapsed_ms)
    return results, [
        (result.cpu_ms() - first) / TURNS for result, first in zip(running, began, strict=True)
    ]


def fill(path: Path) -> None:
    """Fill a database with months of use by SQL: each turn has a question, an answer and a tool
    call.
    """
    with closing(connect(path)) as connection:
        tx = SqliteTransaction(connection)
        tx.run("BEGIN")
        values = _values(tx)
        for statement in _STATEMENTS:
            tx.run(statement, values)
        tx.run("COMMIT")


def _values(tx: Transaction) -> dict[str, object]:
    message = InboundMessage(
        "telegram", ACCOUNT, "CHAT", Sender("CHAT", "Ann"), "EVENT", "What about this?", _MONTHS_AGO
    )
    return {
        "turns": STORED_TURNS,
        "chats": CHATS,
        "first": OWNER,
        "account": ACCOUNT,
        "at": _MONTHS_AGO,
        "day": _DAY_S,
        "payload": message.to_json(),
        "last": tx.one("SELECT coalesce(max(id), 0) FROM turn")[0],
    }


# Number n is a turn; a conversation has 100 of them.
_ONE = (
    "WITH RECURSIVE number(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number"
    " WHERE n + 1 < :turns),"
    " one AS (SELECT n, :last + 1 + n AS turn, :first + n % :chats AS chat,"
    " 'old_' || (n % :chats) || '_' || (n / :chats / 100) AS session, :at + n AS at,"
    " n / :chats % 100 AS place FROM number)"
)
_LANE = "'telegram:' || :account || ':' || chat"
_SAID = """'{"role":"' || role || '","content":[{"type":"text","text":"' || text || n || '"}]}'"""
_STATEMENTS = (
    f"{_ONE} INSERT INTO session (id, principal, created_at, last_active_at, home_lane)"
    f" SELECT DISTINCT session, 'telegram:' || chat, :at, :at, {_LANE} FROM one",
    f"{_ONE} INSERT INTO turn (id, session, lane, state, created_at, ended_at)"
    f" SELECT turn, session, {_LANE}, 'done', at, at FROM one",
    f"{_ONE} INSERT INTO inbox (channel, account, event_id, source_message_id, lane, principal,"
    " payload, received_at, turn_id) SELECT 'telegram', :account, 'old:' || n, chat || ':' || n,"
    f" {_LANE}, 'telegram:' || chat, replace(replace(:payload, 'CHAT', chat), 'EVENT',"
    " 'old:' || n),"
    " at, turn FROM one",
    f"{_ONE} INSERT INTO message (session, n, turn_id, role, content, created_at)"
    f" SELECT session, 2 * place + side + 1, turn, role, {_SAID}, at FROM one,"
    " (SELECT 0 AS side, 'user' AS role, 'What about number ' AS text"
    " UNION ALL SELECT 1, 'assistant', 'This is what there is to say about number ')",
    f"{_ONE} INSERT INTO step (turn_id, n, reply, call_id, tool, effect, idem_key, args, state,"
    " result) SELECT turn, 1, 2, 'c', 'read_file', 'read', turn || ':1', '{}', 'done', '{}'"
    " FROM one"
    " WHERE n % 4 = 0",
    f"{_ONE} INSERT INTO outbox (delivery_id, part, turn_id, lane, channel, account, chat, kind,"
    f" body, state, provider_message_id, created_at) SELECT 't' || turn, 0, turn, {_LANE},"
    " 'telegram',"
    " :account, chat, 'final', 'This is what there is to say', 'sent', n, at FROM one",
    f"{_ONE} INSERT INTO usage (turn_id, n, session, lane, chat, principal, model, input,"
    " output,"
    f" cached, at, by_turn) SELECT turn, 1, session, {_LANE}, {_LANE}, 'telegram:' || chat, 'm',"
    " 900,"
    " 30, 800, at, turn FROM one",
    f"{_ONE} INSERT INTO approval (nonce, turn_id, step, args_hash, grant_hash, lane, session,"
    " asker, principal, channel, account, chat, question, asked_at, expires_at, state)"
    f" SELECT 'n' || n, turn, 1, '', '', {_LANE}, session, 'telegram:' || chat,"
    " 'telegram:' || chat,"
    " 'telegram', :account, chat, '{}', at, at, 'once' FROM one WHERE n % 20 = 0",
    f"{_ONE} INSERT INTO task (turn_id, step, caller, caller_lane, root_turn, root_session,"
    " root_lane, depth, session, lane, agent, definition, title, background, state, asked_at)"
    f" SELECT turn, 1, session, {_LANE}, turn, session, {_LANE}, 1, session,"
    " 'task', 'a', '{}', '',"
    " 1, 'done', at FROM one WHERE n % 20 = 0",
    "INSERT INTO search_entry (session, n) SELECT session, n FROM message",
    "INSERT INTO words (rowid, text) SELECT id, 'This is what there is to say ' || id"
    " FROM search_entry",
)
