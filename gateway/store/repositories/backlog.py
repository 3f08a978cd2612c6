"""What waits in a lane: messages that no turn has taken yet."""

from itertools import takewhile
from sqlite3 import Connection

from gateway.core.messages import InboundMessage
from gateway.store.repositories.inbox import LIVE, PAYLOAD, WAITING

# More than this many waiting messages of one lane are joined into its next turn.
LANE_LIMIT = 50


def is_unanswered(connection: Connection, seq: int) -> bool:
    """Whether the row still waits: it could be claimed in two ways."""
    (found,) = connection.execute(
        f"SELECT EXISTS (SELECT 1 FROM inbox WHERE seq = ? AND {WAITING})", (seq,)
    ).fetchone()
    return bool(found)


def waiting_messages(connection: Connection, lane: str) -> list[InboundMessage]:
    """What waits in the lane, oldest first."""
    return [message for _, message in waiting_rows(connection, lane, together=True, held=True)]


def unfinished(connection: Connection, lane: str) -> frozenset[str]:
    """The platform's ids of messages in the lane that wait, or are being answered."""
    found = connection.execute(
        f"SELECT source_msg FROM inbox WHERE lane = :lane AND {WAITING} UNION"
        " SELECT source_msg FROM inbox"
        f" WHERE turn_id IN (SELECT id FROM turn WHERE lane = :lane AND {LIVE})",
        {"lane": lane},
    )
    return frozenset(source.partition(":")[2] for (source,) in found if source)


def session_of_message(message: InboundMessage) -> str | None:
    """The conversation that a sub-agent's report or a job belongs to, wherever its chat is now."""
    if message.is_report:
        return str(message.options["session"])
    is_planned = message.job is not None and message.task is None
    return message.options.get("session") if is_planned else None


def waiting_rows(
    connection: Connection, lane: str, *, together: bool, held: bool = False
) -> list[tuple[int, InboundMessage]]:
    """The lane's next message; the ones behind it, too, when they are taken together or as far as
    the lane is over its limit. What is `held`, and all behind it, only when asked for."""
    (total,) = connection.execute(
        f"SELECT count(*) FROM inbox WHERE lane = ? AND {WAITING}", (lane,)
    ).fetchone()
    found = connection.execute(
        f"SELECT seq, {PAYLOAD}, held FROM inbox WHERE lane = ? AND {WAITING} ORDER BY seq LIMIT ?",
        (lane, total if together else max(1, total - LANE_LIMIT + 1)),
    )
    ready = found if held else takewhile(lambda row: not row[2], found)
    return [(seq, InboundMessage.from_json(payload)) for seq, payload, _ in ready]
