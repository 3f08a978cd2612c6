"""What a watcher of a lane is told: deliveries that it missed, then what happens live."""

from collections.abc import AsyncIterator
from typing import cast

from gateway.channels.base import delivered_event
from gateway.core.event_hub import Subscription
from gateway.core.records import Delivered, WatchEvent
from gateway.store.port import Store
from gateway.store.repositories.delivery import outbox

# So many are read at a time.
_PAGE = 200


async def lane_events(
    database: Store, lane: str, after: int | None, live: Subscription
) -> AsyncIterator[WatchEvent]:
    """Live events; with `after` first the deliveries with higher numbers that were handed to a
    watcher, which may have lost its connection before it had them. Each is told once."""
    last = after
    while last is not None:
        page = await database.transact(outbox.handed_out_after, lane, last, _PAGE)
        for message in page:
            last = message.seq
            yield delivered_event(message)
        if len(page) < _PAGE:
            break
    async for event in live:
        # One that was on its way while the journal was read is in both.
        is_repeat = (
            isinstance(event, Delivered)
            and after is not None
            and last is not None
            and after < event.seq <= last
        )
        if not is_repeat:
            # Of sessions only their followers are told.
            yield cast("WatchEvent", event)
