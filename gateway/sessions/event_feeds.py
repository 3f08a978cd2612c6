"""Event feeds for watchers of a lane and for followers of a session.

Both yield stored events first, then live events, and no event twice.
"""

from collections.abc import AsyncIterator
from typing import cast

from agent.events import ApprovalAsked, IterationStart, ToolStart
from agent.types import Message
from gateway.channels.base import delivered_event
from gateway.core.event_hub import Subscription
from gateway.core.event_levels import Level, is_wanted
from gateway.core.records import (
    Delivered,
    HistoryReset,
    MessageStored,
    SessionEvent,
    SessionIdle,
    TurnStored,
    WatchEvent,
)
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox, outbox

# Messages or deliveries read per query.
_PAGE = 200
# Events that follow the storing of messages.
_AFTER_STORING = (IterationStart, ApprovalAsked, ToolStart, TurnStored, Delivered)


async def lane_events(
    database: Store, lane: str, after: int | None, live: Subscription
) -> AsyncIterator[WatchEvent]:
    """Yield live events of a lane.

    With `after`, first yield later deliveries again: a watcher may have lost its connection before
    receiving them. Each delivery is yielded once.
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
        # A delivery made while the journal was being read is in both sources.
        is_repeat = (
            isinstance(event, Delivered)
            and after is not None
            and last is not None
            and after < event.seq <= last
        )
        if not is_repeat:
            # Session events go only to followers of sessions.
            yield cast("WatchEvent", event)


async def session_events(
    database: Store,
    session: str,
    after: int,
    live: Subscription,
    kinds: tuple[str, ...] = (),
    level: Level = "debug",
) -> AsyncIterator[SessionEvent]:
    """Yield stored messages with numbers above `after`, then live events.

    Live events are limited to `kinds` (none: all) and to this `level` or above. Each new message is
    yielded once it is stored, before the event that reports it. An idle session is reported first,
    since a client that has just sent a message may miss the end of its turn.
    """
    feed = _StoredMessages(database, session, after)
    async for stored in feed.news():
        yield stored
    # Do not repeat the streamed drafts of these messages.
    live.forget_drafts()
    if not await database.transact(_has_work, session):
        async for stored in feed.news():
            yield stored
        if is_wanted(idle := SessionIdle(), kinds, level):
            yield idle
    async for event in cast("AsyncIterator[SessionEvent]", aiter(live)):
        if isinstance(event, _AFTER_STORING):
            async for stored in feed.news():
                yield stored
            live.forget_drafts()
        if is_wanted(event, kinds, level):
            yield event


class _StoredMessages:
    """Reader of stored messages after number `seq`."""

    def __init__(self, database: Store, session: str, seq: int) -> None:
        self._database = database
        self._session = session
        self._seq = seq

    async def news(self) -> AsyncIterator[MessageStored | HistoryReset]:
        """Yield the new messages, or all messages after the history was shortened."""
        while True:
            count, page = await self._database.transact(_page, self._session, self._seq)
            if count < self._seq:
                self._seq = 0
                yield HistoryReset()
                continue
            for seq, at, message in page:
                self._seq = seq
                yield MessageStored(seq, at, message)
            if len(page) < _PAGE:
                return


def _has_work(tx: Transaction, session: str) -> bool:
    """Return whether a turn runs or waits in the session."""
    return any(inbox.has_work(tx, lane) for lane in sessions.lanes_of(tx, session))


def _page(
    tx: Transaction, session: str, after: int
) -> tuple[int, list[tuple[int, float, Message]]]:
    return sessions.count_messages(tx, session), sessions.load_after(tx, session, after, _PAGE)
