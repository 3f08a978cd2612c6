"""Event feed for watchers of a lane: missed deliveries, then live events."""

from collections.abc import AsyncIterator
from typing import cast

from gateway.channels.base import delivered_event
from gateway.core.event_hub import Subscription
from gateway.core.records import Delivered, WatchEvent
from gateway.store.port import Store
from gateway.store.repositories.delivery import outbox

# Deliveries read per query.
_PAGE = 200


async def lane_events(
    database: Store, lane: str, after: int | None, live: Subscription
) -> AsyncIterator[WatchEvent]:
    """Yield live events of a lane.

    With `after`, first yield later deliveries that were already sent to a watcher, which may have
    lost its connection before receiving them. Each delivery is yielded once.
    """
    last = after
    while last is not None:
        page = await database.transact(outbox.handed_out_after, lane, last, _PAGE)
        for message in page:
            last = message.seq
            yield delivered_event(message)
        if len(page) < _PAGE:
            break
    async for event in live:
        # A delivery made while the journal was read is in both sources.
        is_repeat = (
            isinstance(event, Delivered)
            and after is not None
            and last is not None
            and after < event.seq <= last
        )
        if not is_repeat:
            # Session events go only to followers of sessions.
            yield cast("WatchEvent", event)
