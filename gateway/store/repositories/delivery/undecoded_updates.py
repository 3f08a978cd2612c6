"""Updates that could not be decoded, in raw form: rows of the inbox that no lane works on."""

import json
from collections.abc import Sequence

from agent.records import frozen
from agent.serialization import dumps
from gateway.core.channel_events import Undecoded
from gateway.store.port import Transaction
from gateway.store.repositories.codecs import (
    NO_PAYLOAD,
    PAYLOAD,
    payload_from_row,
    payload_of,
    put_payload,
)
from gateway.store.repositories.delivery.inbox import InboxBatch

# Number of newest updates that are retained; a broken server must not fill the disk.
MAX_UPDATES = 1_000
DECODED = "decoded by a replay"


@frozen
class UndecodedUpdate:
    """A stored undecoded update; `raw` is its original content."""

    seq: int
    channel: str
    account: str
    event_id: str
    reason: str
    raw: str


def keep(
    tx: Transaction, arrival: InboxBatch, undecoded: Sequence[Undecoded]
) -> list[tuple[int, Undecoded]]:
    """Store undecoded updates; returns the new ones with their numbers in the inbox."""
    new = []
    for item in undecoded:
        key = (arrival.channel, arrival.account, item.event_id)
        payload = payload_of(tx, (*key, "", item.principal), dumps({"raw": item.raw}))
        row = tx.first(
            "INSERT INTO inbox (channel, account, event_id, lane, principal, payload,"
            " received_at, dead_reason, is_undecoded)"
            " VALUES (?, ?, ?, '', ?, ?, ?, ?, 1)"
            " ON CONFLICT DO NOTHING RETURNING seq",
            (
                *key,
                item.principal,
                payload,
                arrival.now,
                item.reason,
            ),
        )
        if row is not None:
            new.append((int(row[0]), item))
    if new:
        tx.run(
            "DELETE FROM inbox WHERE is_undecoded = 1 AND seq <= (SELECT seq FROM inbox"
            " WHERE is_undecoded = 1 ORDER BY seq DESC LIMIT 1 OFFSET ?)",
            (MAX_UPDATES,),
        )
    return new


def count(tx: Transaction) -> int:
    (rows,) = tx.one("SELECT count(*) FROM inbox WHERE is_undecoded = 1")
    return int(rows)


def at(tx: Transaction, seq: int) -> UndecodedUpdate | None:
    """Return an undecoded update; None if the row contains something else."""
    row = tx.first(
        f"SELECT seq, dead_reason, {PAYLOAD} FROM inbox WHERE seq = ? AND is_undecoded = 1",
        (seq,),
    )
    if row is None:
        return None
    number, reason, *columns = row
    channel, account, event_id, *_ = columns
    opened = payload_from_row(tx, *columns)
    raw = str(json.loads(opened)["raw"])
    return UndecodedUpdate(number, channel, account, event_id, reason, raw)


def mark_decoded(tx: Transaction, seq: int) -> None:
    tx.run("UPDATE inbox SET is_undecoded = 0, dead_reason = ? WHERE seq = ?", (DECODED, seq))
    put_payload(tx, seq, NO_PAYLOAD)
