"""Repository for usage: a row for each model reply, and reported limits."""

from collections.abc import Sequence
from typing import Literal

from agent.providers.usage import Charge, UsageTotals
from agent.records import frozen
from agent.types import Usage
from gateway.core.messages import InboundMessage, Route
from gateway.store.port import Transaction

# Every one-shot run has its own lane; for spending, the terminal is one chat.
_CONSOLE = "cli"


@frozen
class Payer:
    """Chat and person that a call is charged to. `chat` is the lane without its topic."""

    turn: int
    session: str
    lane: str
    chat: str
    principal: str
    # Turn that makes the calls; a sub-agent's calls are charged to the turn that answers a person.
    by: int


@frozen
class Totals:
    """Totals of turn and session, and of the chat and all chats since the day began."""

    turn: UsageTotals
    session: UsageTotals
    chat: UsageTotals
    day: UsageTotals


@frozen
class Reservation:
    """Minimum cost of a running call, in nano-dollars, with the scopes of its limits."""

    turn: int
    session: str
    chat: str
    cost_nusd: int

    @classmethod
    def of(cls, payer: Payer, cost_nusd: int) -> "Reservation":
        return cls(payer.turn, payer.session, payer.chat, cost_nusd)


def payer(turn: int, session: str, message: InboundMessage, by: int | None = None) -> Payer:
    lane = message.route.lane
    return Payer(turn, session, lane, chat_of(message), message.principal, by or turn)


def chat_of(message: InboundMessage) -> str:
    if message.channel == _CONSOLE:
        return f"{_CONSOLE}:{message.account}"
    return Route(message.channel, message.account, message.chat_id).lane


def record(tx: Transaction, payer: Payer, charge: Charge, now: float) -> None:
    usage = charge.usage
    tx.run(
        "INSERT INTO usage (turn_id, n, session, lane, chat, principal, model, input, output,"
        " cached, cost_nusd, is_estimated, at, by_turn)"
        " SELECT ?, coalesce(max(n), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM usage"
        " WHERE turn_id = ?",
        (
            payer.turn,
            *(payer.session, payer.lane, payer.chat, payer.principal),
            *(charge.model, usage.input, usage.output, usage.cached),
            *(charge.cost_nusd, charge.estimated, now, payer.by),
            payer.turn,
        ),
    )


def record_transcription_cost(
    tx: Transaction, payer: Payer, messages: Sequence[InboundMessage], now: float
) -> bool:
    """Record the cost of transcribing speech in messages; return whether there was any."""
    charges = [
        Charge(media.heard_by, Usage(), media.heard_nano)
        for message in messages
        for media in message.media
        if media.heard_by is not None
    ]
    for charge in charges:
        record(tx, payer, charge, now)
    return bool(charges)


_SUMS = (
    "coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cached), 0),"
    " coalesce(sum(cost_nusd), 0), count(*), count(*) - count(cost_nusd)"
)

_OF_TURN_AND_SESSION = (
    f"SELECT 0 AS place, {_SUMS} FROM usage WHERE turn_id = ?"
    f" UNION ALL SELECT 1 AS place, {_SUMS} FROM usage WHERE session = ?"
)

_OF_DAY = (
    f"SELECT 2 AS place, {_SUMS} FROM usage WHERE at >= ? AND chat = ?"
    f" UNION ALL SELECT 3 AS place, {_SUMS} FROM usage WHERE at >= ?"
)


def totals(tx: Transaction, payer: Payer, since: float | None) -> Totals:
    """Return the totals; `since` is the start of the day, or None without a daily figure."""
    own = payer.turn, payer.session
    if since is None:
        rows = tx.all(f"{_OF_TURN_AND_SESSION} ORDER BY place", own)
    else:
        rows = tx.all(
            f"{_OF_TURN_AND_SESSION} UNION ALL {_OF_DAY} ORDER BY place",
            (*own, since, payer.chat, since),
        )
    sums_by_place = [_totals(sums) for _, *sums in rows]
    return Totals(*sums_by_place, *[UsageTotals()] * (4 - len(sums_by_place)))


def of_turn(tx: Transaction, turn: int) -> UsageTotals:
    return _sum(tx, "turn_id = ?", turn)


def of_subagent_task(tx: Transaction, turn: int) -> UsageTotals:
    """Return the usage of a sub-agent's turn, as a part of its task's total."""
    return _sum(tx, "by_turn = ? AND by_turn <> turn_id", turn)


def of_last_turn(tx: Transaction, session: str) -> UsageTotals:
    """Return the usage of the latest turn of this session that called a model."""
    return _sum(tx, "turn_id = (SELECT max(turn_id) FROM usage WHERE session = ?)", session)


def of_session(tx: Transaction, session: str) -> UsageTotals:
    return _sum(tx, "session = ?", session)


def of_chat(tx: Transaction, chat: str, since: float) -> UsageTotals:
    return _sum(tx, "at >= ? AND chat = ?", since, chat)


def of_all(tx: Transaction, since: float) -> UsageTotals:
    return _sum(tx, "at >= ?", since)


def of_spans(tx: Transaction, spans: Sequence[tuple[float, float]]) -> list[UsageTotals]:
    """Return the usage in each time span, excluding its end."""
    return [_sum(tx, "at >= ? AND at < ?", begin, end) for begin, end in spans]


def is_first(
    tx: Transaction,
    place: tuple[str, str, str],
    kind: Literal["warning", "reached"],
    now: float,
) -> bool:
    """Mark this as reported; return whether it had not been reported yet.

    `place` is the limit's key, its scope and its period.
    """
    return bool(
        tx.run(
            "INSERT INTO limit_notice (limit_key, scope, period, kind, at) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (*place, kind, now),
        )
    )


def reservations(tx: Transaction, but_of: int) -> list[Reservation]:
    """Return the reservations of all turns that make calls, except this one."""
    rows = tx.all(
        "SELECT turn_id, session, chat, cost_nusd FROM usage_reservation WHERE by_turn <> ?",
        (but_of,),
    )
    return [Reservation(*row) for row in rows]


def put_reservation(tx: Transaction, payer: Payer, cost_nusd: int) -> None:
    """Store a reservation, replacing an earlier one of the same turn."""
    tx.run(
        "INSERT INTO usage_reservation (by_turn, turn_id, session, chat, cost_nusd)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (by_turn) DO UPDATE SET turn_id = excluded.turn_id,"
        " session = excluded.session, chat = excluded.chat, cost_nusd = excluded.cost_nusd",
        (payer.by, payer.turn, payer.session, payer.chat, cost_nusd),
    )


def end_reservation(tx: Transaction, by: int) -> None:
    tx.run("DELETE FROM usage_reservation WHERE by_turn = ?", (by,))


def forget_reservations(tx: Transaction, worker: int | None) -> None:
    """Delete the reservations of an ended process: a worker, or (None) the owner of the data.

    They are found by `turn.worker`, also for turns that have ended, so call this before another
    process claims the turns.
    """
    tx.run(
        "DELETE FROM usage_reservation WHERE coalesce("
        "(SELECT worker FROM turn WHERE turn.id = usage_reservation.by_turn), 0) = ?",
        (worker or 0,),
    )


def _sum(tx: Transaction, where: str, *values: object) -> UsageTotals:
    return _totals(tx.one(f"SELECT {_SUMS} FROM usage WHERE {where}", values))


def _totals(sums: Sequence[int]) -> UsageTotals:
    return UsageTotals(Usage(*sums[:3]), *sums[3:])
