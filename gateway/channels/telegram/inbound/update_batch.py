"""Conversion of raw updates to a batch of messages, undecodable updates and migrations."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gateway.channels.telegram.inbound.decode import (
    DecodeContext,
    Undecodable,
    chat_migration,
    decode,
)
from gateway.channels.telegram.inbound.membership import membership_change
from gateway.core.channel_events import UNDECODED_LIMIT_CHARS, Batch, MembershipChange, Undecoded
from gateway.core.messages import InboundMessage

# Name of the only cursor: the number of the next update.
_OFFSET = "offset"
# Limit for removing nulls: the Bot API nests a few levels, and deeper ones are never read.
_DEPTH = 24


def cursors_of(next_offset: int) -> Mapping[str, str]:
    """Return the cursors of a batch with this offset for the next poll."""
    return {_OFFSET: str(next_offset)}


def next_offset_of(cursors: Mapping[str, str]) -> int | None:
    """Return the offset for the next poll; None without one."""
    text = cursors.get(_OFFSET, "")
    return int(text) if text.isdecimal() else None


def decode_batch(
    updates: Iterable[Any], here: DecodeContext, received_at: float, next_offset: int | None = None
) -> Batch:
    """Decode updates; a bad update does not block others.

    Invalid entries are skipped. Without any valid update, the batch's next offset is `next_offset`.
    """
    messages: list[InboundMessage] = []
    undecoded: list[Undecoded] = []
    moves: list[tuple[str, str]] = []
    membership_changes: list[MembershipChange] = []
    for raw in updates:
        if not isinstance(raw, dict) or not is_update_id(raw.get("update_id")):
            continue
        next_offset = max(next_offset or 0, raw["update_id"] + 1)
        update = without_nulls(raw)
        if move := chat_migration(update):
            # Apply at once: later updates of the same batch come from the new chat.
            here.moves.learn(*move)
            moves.append(move)
        try:
            if (change := membership_change(update, here)) is not None:
                membership_changes.append(change)
            decoded = decode(update, here, received_at)
        except Undecodable as exc:
            undecoded.append(_to_undecoded(raw, str(exc)))
            continue
        if decoded is not None:
            messages.append(decoded)
    cursors = {} if next_offset is None else cursors_of(next_offset)
    return Batch(messages, undecoded, cursors, moves, membership_changes)


def decode_stored(raw: str, here: DecodeContext, received_at: float) -> Batch:
    """Decode a stored update, or a stored response with updates, without moving the cursor."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return Batch((), [Undecoded("", "it is not complete JSON", raw)])
    updates = data.get("result", [data]) if isinstance(data, dict) else ()
    batch = decode_batch(updates if isinstance(updates, list) else (), here, received_at)
    return replace(batch, cursors={})


def is_update_id(value: object) -> bool:
    """Return whether the value is a number that a cursor can be set to."""
    return isinstance(value, int) and 0 <= value < 2**62


def without_nulls(value: Any, depth: int = _DEPTH) -> Any:
    """Remove nulls: the Bot API omits missing fields, but some servers send them as null."""
    if depth and isinstance(value, dict):
        return {
            key: without_nulls(entry, depth - 1)
            for key, entry in value.items()
            if entry is not None
        }
    if depth and isinstance(value, list):
        return [without_nulls(item, depth - 1) for item in value if item is not None]
    return value


def _to_undecoded(update: Mapping[str, Any], reason: str) -> Undecoded:
    raw = json.dumps(update)[:UNDECODED_LIMIT_CHARS]
    fields = ", ".join(sorted(str(key)[:40] for key in update)[:8])
    return Undecoded(
        f"update:{update['update_id']}", f"{reason} (fields: {fields})", raw, _author(update)
    )


def _author(update: Mapping[str, Any]) -> str:
    """Return the author, so that the update is exported and deleted with their other data."""
    for part in update.values():
        match part:
            case {"from": {"id": int(number)}}:
                return f"telegram:{number}"
    return ""
