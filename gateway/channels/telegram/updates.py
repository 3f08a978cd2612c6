"""Raw updates to a batch: what can be read of them, what cannot, and what has moved."""

from collections.abc import Iterable
from typing import Any

from gateway.channels.base import Batch, Standing
from gateway.channels.telegram.decode import Here, Undecodable, decode, moved
from gateway.channels.telegram.standing import standing_in
from gateway.messages import InboundMessage


def batch_of(
    updates: Iterable[Any], here: Here, received_at: float, next_offset: int | None = None
) -> Batch:
    """One bad update blocks no other. What is no update at all is passed over; the batch's next
    offset is then the one that was given."""
    messages: list[InboundMessage] = []
    dead: list[tuple[str, str]] = []
    moves: list[tuple[str, str]] = []
    standings: list[Standing] = []
    for update in updates:
        if not isinstance(update, dict) or not isinstance(update.get("update_id"), int):
            continue
        next_offset = max(next_offset or 0, update["update_id"] + 1)
        if move := moved(update):
            # At once: what follows in the same batch is said in the new chat.
            here.moves.learn(*move)
            moves.append(move)
        try:
            if (standing := standing_in(update, here)) is not None:
                standings.append(standing)
            decoded = decode(update, here, received_at)
        except Undecodable as exc:
            dead.append((f"update:{update['update_id']}", str(exc)))
            continue
        if decoded is not None:
            messages.append(decoded)
    return Batch(messages, dead, next_offset, moves, standings)
