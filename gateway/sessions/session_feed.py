"""What a follower of a session is told: the messages that are on disk, in order and each once, and
between them what happens live."""

from collections.abc import AsyncIterator
from typing import cast

from agent.events import ApprovalAsked, IterationStart, ToolStart
from agent.types import Message
from gateway.core.event_hub import Subscription
from gateway.core.event_levels import Level, is_wanted
from gateway.core.messages import CONSOLE, Route
from gateway.core.records import (
    Delivered,
    HistoryReset,
    MessageStored,
    SessionEvent,
    SessionIdle,
    TurnStored,
)
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox

# So many are read at a time.
_PAGE = 200
# When these come, messages have reached the disk.
_AFTER_STORING = (IterationStart, ApprovalAsked, ToolStart, TurnStored, Delivered)
_ACCOUNT, _PREFIX = "local", "session-"


def route_of_session(session: str) -> Route:
    """Where clients speak in a session, however many they are."""
    return Route(CONSOLE, _ACCOUNT, f"{_PREFIX}{session}")


async def session_events(
    database: Store,
    session: str,
    after: int,
    live: Subscription,
    kinds: tuple[str, ...] = (),
    level: Level = "debug",
) -> AsyncIterator[SessionEvent]:
    """Stored messages with numbers above `after`, then live events of these `kinds` (none: all)
    and of this `level` or above, and each message once it is stored, before the event that tells
    of it. Where nothing is under way, that is told first: who has just spoken may come too late for
    the turn's end."""
    feed = _StoredMessages(database, session, after)
    async for stored in feed.news():
        yield stored
    # What streamed of these is not told a second time.
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
    """Reads on from number `seq`."""

    def __init__(self, database: Store, session: str, seq: int) -> None:
        self._database = database
        self._session = session
        self._seq = seq

    async def news(self) -> AsyncIterator[MessageStored | HistoryReset]:
        """The messages that were not told yet; all of them when some were taken back."""
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
    """Whether a turn runs or waits in it."""
    return any(inbox.has_work(tx, lane) for lane in sessions.lanes_of(tx, session))


def _page(
    tx: Transaction, session: str, after: int
) -> tuple[int, list[tuple[int, float, Message]]]:
    return sessions.count_messages(tx, session), sessions.load_after(tx, session, after, _PAGE)
