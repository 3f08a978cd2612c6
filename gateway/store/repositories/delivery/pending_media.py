"""Inbox rows that wait for files to be fetched or for an album to be complete.

Rows after an incomplete row are not claimed either, so that a lane stays in order.
"""

from collections.abc import Sequence
from dataclasses import replace

from agent.records import frozen
from gateway.core.messages import InboundMessage, Media
from gateway.store.port import Transaction
from gateway.store.repositories.active_channels import run_here
from gateway.store.repositories.codecs import PAYLOAD, inbound_from_row, put_payload, readable
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply

# An album is complete if no part was added for this long.
QUIET_S = 1.0
# A part without a mention may come before the part that mentions the bot. It is a tombstone for
# this long and is then deleted; their number is limited.
EARLY = "early part of an album"
EARLY_S = 5.0
_MAX_EARLY_PARTS = 100
_EARLY = f"album IS NOT NULL AND dead_reason = '{EARLY}'"
_INCOMPLETE = "is_incomplete = 1 AND turn_id IS NULL AND dead_reason IS NULL"
_OWN = run_here("inbox")


@frozen
class PendingMessage:
    """Waiting row. `ready_at` is the Unix time at which it has been unchanged for long enough."""

    seq: int
    message: InboundMessage
    ready_at: float

    @property
    def awaited(self) -> Media | None:
        """Next file to fetch."""
        return next((media for media in self.message.media if media.is_awaited), None)


def hold_for_media(tx: Transaction, message: InboundMessage, now: float) -> None:
    """Mark a new row as incomplete if it waits for files or an album."""
    if message.album is None and not any(media.is_awaited for media in message.media):
        return
    ready_at = now + QUIET_S if message.album is not None else now
    tx.run(
        "UPDATE inbox SET is_incomplete = 1, album = ?, ready_at = ?"
        " WHERE channel = ? AND account = ? AND event_id = ?",
        (message.album, ready_at, message.channel, message.account, message.event_id),
    )


def join_album(tx: Transaction, part: InboundMessage, now: float) -> str | None:
    """Add a part of an album to the waiting row; return the reason why it needs no answer."""
    row = tx.first(
        f"SELECT seq, {PAYLOAD} FROM inbox"
        f" WHERE channel = ? AND account = ? AND album = ? AND principal = ? AND {_INCOMPLETE}",
        (part.channel, part.account, part.album, part.principal),
    )
    seq, first = next(readable(tx, [row] if row else []), (0, None))
    if first is None:
        return None
    media = (*first.media, *(attachment for attachment in part.media if not attachment.quoted))
    captions = filter(None, (_caption(first), _caption(part)))
    whole = replace(first, media=media, content=_titled(media, "\n".join(captions)))
    put_payload(tx, seq, whole.to_json())
    tx.run("UPDATE inbox SET ready_at = ? WHERE seq = ?", (now + QUIET_S, seq))
    return f"part of {seq}"


def has_room(tx: Transaction, part: InboundMessage) -> bool:
    """Return whether another early part of an album may be stored."""
    (count,) = tx.one(
        f"SELECT count(*) FROM inbox WHERE channel = ? AND account = ? AND {_EARLY}",
        (part.channel, part.account),
    )
    return bool(count < _MAX_EARLY_PARTS)


def wait(tx: Transaction, part: InboundMessage, now: float) -> None:
    """Store the album of an early part, so that the rest of the album finds it for a while."""
    tx.run(
        "UPDATE inbox SET album = ?, ready_at = ?"
        " WHERE channel = ? AND account = ? AND event_id = ?",
        (part.album, now + EARLY_S, part.channel, part.account, part.event_id),
    )


def gather_album(tx: Transaction, first: InboundMessage, now: float) -> None:
    """Add the early parts of an album to its new waiting row."""
    if first.album is None or first.edited:
        return
    early = tx.all(
        f"SELECT seq, {PAYLOAD} FROM inbox"
        f" WHERE channel = ? AND account = ? AND album = ? AND principal = ? AND {_EARLY}"
        " ORDER BY seq",
        (first.channel, first.account, first.album, first.principal),
    )
    for seq, part in readable(tx, early):
        reason = join_album(tx, part, now)
        tx.run("UPDATE inbox SET dead_reason = ? WHERE seq = ?", (reason, seq))


def forget_early(tx: Transaction, now: float) -> float | None:
    """Delete unused early parts; return the seconds until the next check.

    Returns None if no early parts are left.
    """
    tx.run(f"DELETE FROM inbox WHERE {_EARLY} AND {_OWN} AND ready_at <= ?", (now,))
    (next_at,) = tx.one(f"SELECT min(ready_at) FROM inbox WHERE {_EARLY} AND {_OWN}")
    # Limited, because the clock may have been set back.
    return None if next_at is None else float(min(next_at - now, EARLY_S))


def edit(tx: Transaction, seq: int, old: InboundMessage, new: InboundMessage) -> None:
    """Apply an edit to a waiting message, keeping its fetched files."""
    old_media = {attachment.unique: attachment for attachment in old.media if attachment.unique}
    media = tuple(old_media.get(attachment.unique or "", attachment) for attachment in new.media)
    content = new.content
    if old.album is not None and len(old.media) > len(media):
        media, content = old.media, _titled(old.media, _caption(new))
    edited = replace(new, media=media, content=content, album=old.album)
    put_payload(tx, seq, edited.to_json())
    if any(item.is_awaited for item in media):
        tx.run("UPDATE inbox SET is_incomplete = 1 WHERE seq = ?", (seq,))


def rows(tx: Transaction) -> list[int]:
    """Return the waiting rows of this process's channels: only these can fetch their files."""
    matches = tx.all(f"SELECT seq FROM inbox WHERE {_INCOMPLETE} AND {_OWN}")
    return [seq for (seq,) in matches]


def find(tx: Transaction, seq: int) -> PendingMessage | None:
    """Return the row in its current state; None if it no longer waits. Raises `SealBroken`."""
    row = tx.first(f"SELECT {PAYLOAD}, ready_at FROM inbox WHERE seq = ? AND {_INCOMPLETE}", (seq,))
    return PendingMessage(seq, inbound_from_row(tx, *row[:-1]), row[-1]) if row else None


def is_forgotten(tx: Transaction, seq: int) -> bool:
    """Return whether the sender's data was deleted since; also true for a missing row."""
    whose = tx.first("SELECT principal FROM inbox WHERE seq = ?", (seq,))
    return whose is None or not whose[0]


def settle(
    tx: Transaction, seq: int, media: Media, replies: Sequence[OutgoingReply], now: float
) -> None:
    """Store the result of fetching a file, and queue messages about it for the person.

    The row may have grown meanwhile.
    """
    row = find(tx, seq)
    if row is not None:
        outbox.put(tx, None, replies, now)
        new_media = tuple(
            media if attachment.is_awaited and _same(attachment, media) else attachment
            for attachment in row.message.media
        )
        put_payload(tx, seq, replace(row.message, media=new_media).to_json())


def release(tx: Transaction, expected: PendingMessage) -> str | None:
    """Release a row that no longer waits for anything; return its lane.

    Returns None if the row has grown since it was read as `expected`.
    """
    row = find(tx, expected.seq)
    if row is None or row.awaited is not None or row.ready_at != expected.ready_at:
        return None
    tx.run("UPDATE inbox SET is_incomplete = 0 WHERE seq = ?", (expected.seq,))
    return row.message.session_key


def begin_again(tx: Transaction, ready_at: float) -> None:
    """Restart the wait for albums after a start: the rest of an album may still come."""
    tx.run(
        "UPDATE inbox SET ready_at = ? WHERE seq IN (SELECT seq FROM inbox WHERE album IS NOT NULL"
        f" AND {_INCOMPLETE} UNION SELECT seq FROM inbox WHERE {_EARLY}) AND {_OWN}",
        (ready_at,),
    )


def _same(left: Media, right: Media) -> bool:
    return (left.remote, left.quoted) == (right.remote, right.quoted)


def _caption(message: InboundMessage) -> str:
    """Return the text of a file's caption, without the label in front of it."""
    return message.content.partition("]")[2].strip()


def _titled(media: Sequence[Media], caption: str) -> str:
    own = [item for item in media if not item.quoted]
    return f"[album of {len(own)}] {caption}".rstrip()
