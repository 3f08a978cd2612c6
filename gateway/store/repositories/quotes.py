"""Words that a message quotes: what they bring along from the conversation that they are from."""

from collections.abc import Sequence
from sqlite3 import Connection

from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.types import Taint
from gateway.core.messages import InboundMessage
from gateway.store.repositories import sessions


def taint_of_quotes(connection: Connection, messages: Sequence[InboundMessage]) -> frozenset[Taint]:
    """Of an answer of ours all that its session has taken in, of the sender's own words nothing;
    everything else is a stranger's word."""
    quoting = (one for one in messages if one.quoted and not one.quoted_own)
    return NOTHING.union(*(_taint(connection, one) for one in quoting))


def _taint(connection: Connection, message: InboundMessage) -> frozenset[Taint]:
    row = connection.execute(
        "SELECT t.session, o.delivery_id FROM outbox o LEFT JOIN turn t ON t.id = o.turn_id"
        " WHERE o.provider_msg = ? AND o.lane = ? ORDER BY o.seq DESC LIMIT 1",
        (message.quoted_id, message.route.lane),
    ).fetchone()
    if row is None:
        return UNTRUSTED
    session, delivery = row
    if session is not None:
        return sessions.taint_of(connection, session)
    # A reminder is in the words of whoever asked for it; a command's answer may list anything.
    return NOTHING if delivery.startswith("cron:") else UNTRUSTED
