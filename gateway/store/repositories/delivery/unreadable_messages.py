"""Inbox rows that were changed outside of Kore; readers skip them.

The transaction reports such a row to the log and the audit log, once and without its content.
"""

from collections.abc import Iterable, Iterator

from gateway.core.messages import InboundMessage
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction
from gateway.store.repositories.codecs import inbound_from_row

_UNREADABLE = "changed outside of Kore"


def readable(tx: Transaction, rows: Iterable[Row]) -> Iterator[tuple[int, InboundMessage]]:
    """Yield the unchanged messages in rows of `seq` and `PAYLOAD`, each with its number."""
    for seq, *columns in rows:
        try:
            message = inbound_from_row(tx, *columns)
        except SealBroken:
            continue
        yield seq, message


def bury_changed(tx: Transaction, rows: Iterable[Row]) -> list[tuple[int, InboundMessage]]:
    """Return the `readable` messages and give up the others.

    Messages behind a changed one are then answered.
    """
    rows = list(rows)
    messages = list(readable(tx, rows))
    for seq in {row[0] for row in rows} - {seq for seq, _ in messages}:
        bury(tx, seq)
    return messages


def bury(tx: Transaction, seq: int) -> str | None:
    """Give up a message that cannot be read; returns its lane."""
    row = tx.first(
        "UPDATE inbox SET dead_reason = ? WHERE seq = ? RETURNING lane", (_UNREADABLE, seq)
    )
    return row[0] if row else None
