"""Inbox rows that wait for something of their own: files to be fetched, an album to be whole.

Nothing behind an incomplete row is claimed either, so a lane stays in order.
"""

from collections.abc import Sequence
from dataclasses import replace

from agent.records import frozen
from gateway.core.messages import InboundMessage, Media
from gateway.store.port import Transaction
from gateway.store.repositories.active_channels import run_here
from gateway.store.repositories.codecs import PAYLOAD, inbound_from_row, put_payload
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.delivery.unreadable_messages import readable

# An album is whole when nothing has joined it for so long.
QUIET_S = 1.0
# A part without a mention may come before the one that mentions the bot. It is a tombstone for
# this long and is then deleted; their number is limited.
EARLY = "early part of an album"
EARLY_S = 5.0
_EARLY_KEPT = 100
_EARLY = f"album IS NOT NULL AND dead_reason = '{EARLY}'"
_INCOMPLETE = "is_incomplete = 1 AND turn_id IS NULL AND dead_reason IS NULL"
_OWN = run_here("inbox")


@frozen
class PendingMessage:
    """A row that waits. `ready_at` (Unix time) is when it has been still for long enough."""

    seq: int
    message: InboundMessage
    ready_at: float

    @property
    def awaited(self) -> Media | None:
        """The next file to fetch."""
        return next((one for one in self.message.media if one.is_awaited), None)


def hold_for_media(tx: Transaction, message: InboundMessage, now: float) -> None:
    """Keep a new row from being worked on as long as it needs something."""
    if message.album is None and not any(one.is_awaited for one in message.media):
        return
    ready_at = now + QUIET_S if message.album is not None else now
    tx.run(
        "UPDATE inbox SET is_incomplete = 1, album = ?, ready_at = ?"
        " WHERE channel = ? AND account = ? AND event_id = ?",
        (message.album, ready_at, message.channel, message.account, message.event_id),
    )


def join_album(tx: Transaction, part: InboundMessage, now: float) -> str | None:
    """Put a part of an album to the one that waits; returns why it needs no answer of its own."""
    row = tx.first(
        f"SELECT seq, {PAYLOAD} FROM inbox"
        f" WHERE channel = ? AND account = ? AND album = ? AND principal = ? AND {_INCOMPLETE}",
        (part.channel, part.account, part.album, part.principal),
    )
    seq, first = next(readable(tx, [row] if row else []), (0, None))
    if first is None:
        return None
    media = (*first.media, *(one for one in part.media if not one.quoted))
    captions = filter(None, (_caption(first), _caption(part)))
    whole = replace(first, media=media, content=_titled(media, "\n".join(captions)))
    put_payload(tx, seq, whole.to_json())
    tx.run("UPDATE inbox SET ready_at = ? WHERE seq = ?", (now + QUIET_S, seq))
    return f"part of {seq}"


def has_room(tx: Transaction, part: InboundMessage) -> bool:
    """Whether one more part of an unclaimed album may be kept."""
    (count,) = tx.one(
        f"SELECT count(*) FROM inbox WHERE channel = ? AND account = ? AND {_EARLY}",
        (part.channel, part.account),
    )
    return bool(count < _EARLY_KEPT)


def wait(tx: Transaction, part: InboundMessage, now: float) -> None:
    """Let the row of an early part be found by the rest of its album, for a while."""
    tx.run(
        "UPDATE inbox SET album = ?, ready_at = ?"
        " WHERE channel = ? AND account = ? AND event_id = ?",
        (part.album, now + EARLY_S, part.channel, part.account, part.event_id),
    )


def gather_album(tx: Transaction, first: InboundMessage, now: float) -> None:
    """Put the early parts of its album to a new row that waits."""
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
    """Do away with early parts that were never used; returns in how many seconds to look again,
    None when there are no more."""
    tx.run(f"DELETE FROM inbox WHERE {_EARLY} AND {_OWN} AND ready_at <= ?", (now,))
    (next_at,) = tx.one(f"SELECT min(ready_at) FROM inbox WHERE {_EARLY} AND {_OWN}")
    # A clock that was set back must not keep them.
    return None if next_at is None else float(min(next_at - now, EARLY_S))


def edit(tx: Transaction, seq: int, old: InboundMessage, new: InboundMessage) -> None:
    """A message that waits was changed: what is known of its files stays known."""
    old_media = {one.unique: one for one in old.media if one.unique}
    media = tuple(old_media.get(one.unique or "", one) for one in new.media)
    content = new.content
    if old.album is not None and len(old.media) > len(media):
        media, content = old.media, _titled(old.media, _caption(new))
    edited = replace(new, media=media, content=content, album=old.album)
    put_payload(tx, seq, edited.to_json())
    if any(one.is_awaited for one in media):
        tx.run("UPDATE inbox SET is_incomplete = 1 WHERE seq = ?", (seq,))


def rows(tx: Transaction) -> list[int]:
    """Those of channels that are run here: only these can fetch their files."""
    matches = tx.all(f"SELECT seq FROM inbox WHERE {_INCOMPLETE} AND {_OWN}")
    return [seq for (seq,) in matches]


def find(tx: Transaction, seq: int) -> PendingMessage | None:
    """Return the row as it is now; None when it waits no more. Raises `SealBroken`."""
    row = tx.first(f"SELECT {PAYLOAD}, ready_at FROM inbox WHERE seq = ? AND {_INCOMPLETE}", (seq,))
    return PendingMessage(seq, inbound_from_row(tx, *row[:-1]), row[-1]) if row else None


def is_forgotten(tx: Transaction, seq: int) -> bool:
    """Whether its sender's data was deleted since; also True for a missing row."""
    whose = tx.first("SELECT principal FROM inbox WHERE seq = ?", (seq,))
    return whose is None or not whose[0]


def settle(
    tx: Transaction, seq: int, media: Media, letters: Sequence[OutgoingReply], now: float
) -> None:
    """A file of the row is there, or known to be out of reach, and the person is told so. The row
    may have grown meanwhile."""
    row = find(tx, seq)
    if row is not None:
        outbox.put(tx, None, letters, now)
        new_media = tuple(
            media if one.is_awaited and _same(one, media) else one for one in row.message.media
        )
        put_payload(tx, seq, replace(row.message, media=new_media).to_json())


def release(tx: Transaction, expected: PendingMessage) -> str | None:
    """Let go of a row that needs nothing any more; returns its lane, None when it has grown since
    it was read as `expected`."""
    row = find(tx, expected.seq)
    if row is None or row.awaited is not None or row.ready_at != expected.ready_at:
        return None
    tx.run("UPDATE inbox SET is_incomplete = 0 WHERE seq = ?", (expected.seq,))
    return row.message.session_key


def begin_again(tx: Transaction, ready_at: float) -> None:
    """After a start: the rest of an album may still come, so it is given time once more."""
    tx.run(
        "UPDATE inbox SET ready_at = ? WHERE seq IN (SELECT seq FROM inbox WHERE album IS NOT NULL"
        f" AND {_INCOMPLETE} UNION SELECT seq FROM inbox WHERE {_EARLY}) AND {_OWN}",
        (ready_at,),
    )


def _same(one: Media, other: Media) -> bool:
    return (one.remote, one.quoted) == (other.remote, other.quoted)


def _caption(message: InboundMessage) -> str:
    """What is said below a file; in front of it stands what it is."""
    return message.content.partition("]")[2].strip()


def _titled(media: Sequence[Media], caption: str) -> str:
    own = [one for one in media if not one.quoted]
    return f"[album of {len(own)}] {caption}".rstrip()
