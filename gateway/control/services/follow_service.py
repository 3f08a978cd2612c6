"""The calls that follow sessions, for the process that owns the data."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.core.event_hub import EventHub
from gateway.core.event_levels import Level, is_wanted
from gateway.core.records import SessionChanged, SessionEvent, SessionNews
from gateway.delivery.sender import OutboxSender
from gateway.sessions import lookup
from gateway.sessions.session_feed import route_of_session, session_events
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions


class FollowService:
    """Implements the part of `gateway.control.service.MessageCalls` that follows sessions."""

    def __init__(
        self,
        database: Store,
        events: EventHub,
        approvals: ApprovalCoordinator,
        sender: OutboxSender,
    ) -> None:
        self._database = database
        self._events = events
        self._approvals = approvals
        self._sender = sender

    @asynccontextmanager
    async def follow_session(
        self, session: str, after: int = 0, kinds: tuple[str, ...] = (), level: Level = "debug"
    ) -> AsyncIterator[AsyncIterator[SessionEvent]]:
        session = await self._database.transact(lookup.find, session)
        lane = route_of_session(session).lane
        with self._events.watch(lane, session) as watcher:
            lanes = await self._database.transact(sessions.lanes_of, session)
            for question in await self._approvals.open_questions():
                if question.lane in lanes:
                    watcher.put(self._approvals.request_event(question))
            await self._sender.retry_now(lane)
            yield session_events(self._database, session, after, watcher, kinds, level)

    @asynccontextmanager
    async def follow_sessions(
        self,
        sessions: tuple[str, ...] = (),
        kinds: tuple[str, ...] = (),
        level: Level = "info",
    ) -> AsyncIterator[AsyncIterator[SessionNews]]:
        ids = [await self._database.transact(lookup.find, session) for session in sessions]

        def accepts(session: str, event: SessionEvent) -> bool:
            return (not ids or session in ids) and is_wanted(event, kinds, level)

        with self._events.watch_sessions(accepts) as watcher:
            yield cast("AsyncIterator[SessionNews]", aiter(watcher))

    def _announce(self, session: str) -> None:
        """Tell followers of many sessions that this one is new or listed differently."""
        self._events.announce(session, SessionChanged())
