"""Outbox parts that are no longer sent; pairing codes in them are deleted."""

from collections.abc import Sequence
from contextlib import suppress

from gateway.core.messages import OutboundPart
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction
from gateway.store.repositories import codecs

# Prefix of the delivery ids of messages with a pairing code.
PAIRING = "pair:"


def forget_codes(tx: Transaction, ended: Sequence[Row]) -> int:
    """Empty the pairing messages among the parts that just ended; returns the number of parts.

    `ended` has `seq` and `delivery_id` of each part.
    """
    for seq, delivery_id in ended:
        if delivery_id.startswith(PAIRING):
            _forget(tx, seq)
    return len(ended)


def _forget(tx: Transaction, seq: int) -> None:
    """Empty a part. A broken one stays as it is: a new seal would make it valid."""
    *place, kind, buttons, body = tx.one(
        f"SELECT delivery_id, part, {codecs.PART_ROUTE}, kind, buttons, body FROM outbox"
        " WHERE seq = ?",
        (seq,),
    )
    with suppress(SealBroken):
        tx.unseal(body, "outbox.body", *place, kind, buttons)
        codecs.put_part(tx, seq, place, kind, OutboundPart(""))
