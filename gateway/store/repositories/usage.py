"""What was spent: a row for each reply of a model, and who was told of a limit."""

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Literal

from agent.records import frozen
from agent.types import Usage
from agent.usage import Charge, UsageTotals
from gateway.core.messages import InboundMessage, Route

# Every one-shot run has a lane of its own; for spending, the terminal is one chat.
_CONSOLE = "cli"


@frozen
class Payer:
    """Whom a call is charged to. `chat` is the lane without its topic."""

    turn: int
    session: str
    lane: str
    chat: str
    principal: str
    # The turn that makes the calls: a sub-agent's are made for the turn that answers a person.
    by: int


@frozen
class Totals:
    """What turn and session have come to, and chat and everything since the day began."""

    turn: UsageTotals
    session: UsageTotals
    chat: UsageTotals
    day: UsageTotals


def payer(turn: int, session: str, message: InboundMessage, by: int | None = None) -> Payer:
    lane = message.route.lane
    return Payer(turn, session, lane, chat_of(message), message.principal, by or turn)


def chat_of(message: InboundMessage) -> str:
    if message.channel == _CONSOLE:
        return f"{_CONSOLE}:{message.account}"
    return Route(message.channel, message.account, message.chat_id).lane


def record(connection: Connection, payer: Payer, charge: Charge, now: float) -> None:
    usage = charge.usage
    connection.execute(
        "INSERT INTO usage (turn_id, n, session, lane, chat, principal, model, input, output,"
        " cached, cost_nusd, estimated, at, by_turn)"
        " SELECT :turn, coalesce(max(n), 0) + 1, :session, :lane, :chat, :principal, :model,"
        " :input, :output, :cached, :cost, :estimated, :at, :by FROM usage WHERE turn_id = :turn",
        {
            "turn": payer.turn,
            "session": payer.session,
            "lane": payer.lane,
            "chat": payer.chat,
            "principal": payer.principal,
            "model": charge.model,
            "input": usage.input,
            "output": usage.output,
            "cached": usage.cached,
            "cost": charge.nano,
            "estimated": charge.estimated,
            "at": now,
            "by": payer.by,
        },
    )


def record_heard(
    connection: Connection, payer: Payer, messages: Sequence[InboundMessage], now: float
) -> bool:
    """What was paid for writing down what was spoken in them; whether that was anything."""
    charges = [
        Charge(media.heard_by, Usage(), media.heard_nano)
        for one in messages
        for media in one.media
        if media.heard_by is not None
    ]
    for charge in charges:
        record(connection, payer, charge, now)
    return bool(charges)


def totals(connection: Connection, payer: Payer, since: float | None) -> Totals:
    """`since` is when the day began; None when nobody asks for what is of a day."""
    return Totals(
        of_turn(connection, payer.turn),
        of_session(connection, payer.session),
        UsageTotals() if since is None else of_chat(connection, payer.chat, since),
        UsageTotals() if since is None else of_all(connection, since),
    )


def of_turn(connection: Connection, turn: int) -> UsageTotals:
    return _sum(connection, "turn_id = ?", turn)


def of_errand(connection: Connection, turn: int) -> UsageTotals:
    """What one sub-agent's turn has spent, as a part of what it was sent out for."""
    return _sum(connection, "by_turn = ? AND by_turn <> turn_id", turn)


def of_last_turn(connection: Connection, session: str) -> UsageTotals:
    """The turn of this session that called a model last."""
    return _sum(connection, "turn_id = (SELECT max(turn_id) FROM usage WHERE session = ?)", session)


def of_session(connection: Connection, session: str) -> UsageTotals:
    return _sum(connection, "session = ?", session)


def of_chat(connection: Connection, chat: str, since: float) -> UsageTotals:
    return _sum(connection, "at >= ? AND chat = ?", since, chat)


def of_all(connection: Connection, since: float) -> UsageTotals:
    return _sum(connection, "at >= ?", since)


def is_first(
    connection: Connection,
    place: tuple[str, str, str],
    kind: Literal["warning", "reached"],
    now: float,
) -> bool:
    """Whether nobody was told of this yet; from here on somebody was. `place` is the limit's key,
    its scope and its period."""
    return bool(
        connection.execute(
            "INSERT OR IGNORE INTO limit_notice (cap, scope, period, kind, at)"
            " VALUES (?, ?, ?, ?, ?)",
            (*place, kind, now),
        ).rowcount
    )


def private_route(connection: Connection, principal: str) -> Route | None:
    """Where somebody last wrote in private: there, chat and sender have the same id."""
    row = connection.execute(
        "SELECT channel, account FROM inbox WHERE principal = :who AND"
        " lane = channel || ':' || account || substr(:who, length(channel) + 1)"
        " ORDER BY seq DESC LIMIT 1",
        {"who": principal},
    ).fetchone()
    return Route(row[0], row[1], principal.partition(":")[2]) if row else None


def _sum(connection: Connection, where: str, *values: object) -> UsageTotals:
    row = connection.execute(
        "SELECT coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cached), 0),"
        " coalesce(sum(cost_nusd), 0), count(*), count(*) - count(cost_nusd) FROM usage"
        f" WHERE {where}",
        values,
    ).fetchone()
    return UsageTotals(Usage(*row[:3]), *row[3:])
