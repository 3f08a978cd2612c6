"""Fan-out of a lane's events to every screen that watches it.

No turn waits for a screen. Unread events are bounded, with a rule for each class of events, and
every omission is reported.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace

from agent.errors import KoreError
from agent.events import (
    ApprovalAsked,
    FileChanged,
    IterationStart,
    Retry,
    State,
    StreamEnd,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolOutput,
    ToolResulted,
    ToolStart,
    UsageReport,
)
from agent.turn.event_stream import DroppedEvents
from gateway.core.attention import AttentionRule
from gateway.core.errors import ConnectionLost
from gateway.core.messages import ONCE
from gateway.core.records import SessionEvent, SessionNews, TurnStored, WatchEvent

Accepts = Callable[[str, SessionEvent], bool]

# Longest wait for a watcher to leave, because a suspended screen does not read.
_LEAVE_S = 1.0
# A watcher this far behind is dropped and has to load the session again.
MAX_EVENTS = 4096
MAX_CHARS = 16_000_000
OUTPUT_LIMIT = 100
STATUS_LIMIT = 10
# A joined delta ends at about this size, because joining costs its length.
JOINED_CHARS = 16_384
FELL_BEHIND = (
    "this screen fell too far behind and was disconnected; the conversation continues and is stored"
)
# The latest event of these types replaces earlier ones.
_STATUS = (State, UsageReport, IterationStart)
_COUNTED = (ToolOutput, *_STATUS)
_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)


class Subscription:
    """Events of one screen.

    Unread deltas are joined, so that none is lost. Live tool output and older states may be
    omitted; results are complete. No question is shown twice.
    """

    def __init__(self) -> None:
        self._events: deque[SessionEvent | SessionNews] = deque()
        self._chars = 0
        self._unread: Counter[type] = Counter()
        self._left_out = DroppedEvents()
        self._approval_nonces: set[str] = set()
        self._ready = asyncio.Event()
        self._closed = False
        self._failure: KoreError | None = None

    @property
    def is_open(self) -> bool:
        """False after the subscription was dropped; it receives no later events."""
        return not self._closed

    def put(self, event: SessionEvent | SessionNews) -> None:
        if self._closed:
            return
        last = self._events[-1] if self._events else None
        merged = _merge(last, event)
        match event:
            case _ if merged is not None:
                self._drop(-1)
                self._append(merged)
            case ApprovalAsked(nonce) if nonce in self._approval_nonces:
                return
            case ToolOutput() if self._unread[ToolOutput] >= OUTPUT_LIMIT:
                self._left_out.add(event)
            case ToolOutput():
                self._append(self._left_out.before(event))
            case ToolResulted():
                if (lost := self._left_out.at_end(event)) is not None:
                    self._append(lost)
                self._append(event)
            case _:
                if isinstance(event, ApprovalAsked):
                    self._approval_nonces.add(event.nonce)
                if isinstance(event, _STATUS) and self._unread[type(event)] >= STATUS_LIMIT:
                    self._drop(
                        next(i for i, e in enumerate(self._events) if type(e) is type(event))
                    )
                self._append(event)
        if len(self._events) > MAX_EVENTS or self._chars > MAX_CHARS:
            self.fail(ConnectionLost(FELL_BEHIND))
        self._ready.set()

    def fail(self, failure: KoreError) -> None:
        """End the subscription: the reader receives the pending events, then this error."""
        self._closed, self._failure = True, failure
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    def forget_drafts(self) -> None:
        """Drop the deltas of replies that have streamed to their ends, because they are on disk."""
        last_end = max(
            (i for i, e in enumerate(self._events) if isinstance(e, StreamEnd)), default=0
        )
        for index in reversed(range(last_end)):
            if isinstance(self._events[index], _DELTAS):
                self._drop(index)

    def _append(self, event: SessionEvent | SessionNews) -> None:
        self._events.append(event)
        self._chars += _chars(event)
        if isinstance(event, _COUNTED):
            self._unread[type(event)] += 1

    def _drop(self, index: int) -> SessionEvent | SessionNews:
        event = self._events[index]
        del self._events[index]
        self._chars -= _chars(event)
        if isinstance(event, _COUNTED):
            self._unread[type(event)] -= 1
        return event

    async def __aiter__(self) -> AsyncIterator[SessionEvent | SessionNews]:
        """Yield the events.

        After the pending events, raises `ConnectionLost` for a dropped screen, or the error with
        which the whole lane failed.
        """
        while True:
            await self._ready.wait()
            self._ready.clear()
            while self._events:
                yield self._drop(0)
            if self._failure is not None:
                raise self._failure
            if self._closed:
                return


class EventHub:
    """Watchers by lane and by session.

    A new watcher receives the running calls and, in a session, the streaming reply.
    """

    def __init__(self, attention: AttentionRule | None = None) -> None:
        """Without the rule for `attention`, screens send no notifications."""
        self._attention = attention or AttentionRule(None)
        self._lanes: dict[str, list[Subscription]] = {}
        self._followers: dict[str, list[Subscription]] = {}
        # Watchers of many sessions, each with its filter.
        self._overviews: list[tuple[Subscription, Accepts]] = []
        # Only during turns, because the end of other calls is not reported.
        self._calls: dict[str, dict[str, ToolStart]] = {}
        self._sessions: dict[str, str] = {}
        self._drafts: dict[str, list[str]] = {}
        self._failure: KoreError | None = None
        self._unwatched = asyncio.Event()

    @contextmanager
    def turn(self, lane: str, session: str) -> Iterator[None]:
        """Record the lane's calls while the context is open; they end with it in any case."""
        self._calls[lane], self._sessions[lane], self._drafts[lane] = {}, session, []
        try:
            yield
        finally:
            for of_turns in (self._calls, self._sessions, self._drafts):
                of_turns.pop(lane, None)

    @contextmanager
    def watch(self, lane: str, session: str | None = None) -> Iterator[Subscription]:
        """Watch a lane; with `session`, also the turns that other lanes run in it."""
        watcher = Subscription()
        for running in {lane, *self.lanes_at_work(session)}:
            for call in self._calls.get(running, {}).values():
                watcher.put(call)
            if session is not None and (draft := "".join(self._drafts.get(running, ()))):
                watcher.put(TextDelta(draft))
        places = [(self._lanes, lane)]
        if session is not None:
            places.append((self._followers, session))
        for watchers, key in places:
            watchers.setdefault(key, []).append(watcher)
        if self._failure is not None:
            watcher.fail(self._failure)
        try:
            yield watcher
        finally:
            for watchers, key in places:
                watchers[key].remove(watcher)
                if not watchers[key]:
                    del watchers[key]
            self._note_end_of_watch()

    @contextmanager
    def watch_sessions(self, accepts: Accepts) -> Iterator[Subscription]:
        """Watch the accepted events of turns in all sessions, as `SessionNews`."""
        overview = (Subscription(), accepts)
        self._overviews.append(overview)
        if self._failure is not None:
            overview[0].fail(self._failure)
        try:
            yield overview[0]
        finally:
            self._overviews.remove(overview)
            self._note_end_of_watch()

    def announce(self, session: str, event: SessionEvent) -> None:
        """Send an event to the watchers of many sessions."""
        for overview, accepts in self._overviews:
            if accepts(session, event):
                overview.put(SessionNews(session, event))

    def _note_end_of_watch(self) -> None:
        if not self._lanes and not self._overviews:
            self._unwatched.set()

    def _all_watchers(self) -> list[Subscription]:
        lanes = [watcher for watchers in self._lanes.values() for watcher in watchers]
        return [*lanes, *(overview for overview, _ in self._overviews)]

    def lanes_at_work(self, session: str | None) -> list[str]:
        """Return the lanes on which turns of a session run."""
        return [lane for lane, of in self._sessions.items() if of == session]

    def publish(self, lane: str, event: WatchEvent, session: str | None = None) -> None:
        """Send an event to the watchers of the lane, and to the followers of its session.

        By default, this is the session of the lane's turn; between turns, pass the `session`.
        """
        self._note(lane, event)
        session = session or self._sessions.get(lane)
        self._distribute([lane], session, event)
        if session is not None:
            self._call_attention([lane], session, event)

    def publish_suspended(self, lanes: Collection[str], session: str, event: WatchEvent) -> None:
        """Publish an event of a turn that may be suspended to its lanes and its session."""
        for lane in lanes:
            self._note(lane, event)
        self._distribute(lanes, session, event)
        self._call_attention(lanes, session, event)

    def _distribute(self, lanes: Collection[str], session: str | None, event: WatchEvent) -> None:
        """Send an event once to each watcher of the lanes and of the session."""
        followers = self._followers.get(session, ()) if session is not None else ()
        watchers = [watcher for lane in lanes for watcher in self._lanes.get(lane, ())]
        for watcher in dict.fromkeys([*watchers, *followers]):
            watcher.put(event)
        if session is not None:
            self.announce(session, event)

    def _call_attention(self, lanes: Collection[str], session: str, event: WatchEvent) -> None:
        reason = self._attention.take(session, event)
        # No person watches a one-shot run.
        if reason is not None and not any(lane.startswith(ONCE) for lane in lanes):
            self._distribute(lanes, session, reason)

    def end_turn(self, session: str) -> None:
        """Announce that all messages of this session's turn are on disk."""
        for follower in self._followers.get(session, ()):
            follower.put(TurnStored())
        self.announce(session, TurnStored())

    def fail(self, lane: str, failure: KoreError) -> None:
        """Send the reason why there will be no answer to every viewer of the lane."""
        for watcher in self._lanes.get(lane, ()):
            watcher.fail(failure)

    async def fail_all(self, failure: KoreError) -> None:
        """End all current and future watches with this error.

        Returns when they have ended, so that every watcher receives the reason before its
        connection ends.
        """
        self._failure = failure
        for watcher in self._all_watchers():
            watcher.fail(failure)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                while self._lanes or self._overviews:
                    self._unwatched.clear()
                    await self._unwatched.wait()

    def _note(self, lane: str, event: WatchEvent) -> None:
        calls = self._calls.get(lane)
        if calls is None:
            return
        match event:
            case ToolStart():
                calls[event.id] = event
            case ToolResulted():
                calls.pop(event.id, None)
            case TextDelta(text):
                self._drafts[lane].append(text)
            case IterationStart() | StreamEnd() | Retry():
                self._drafts[lane].clear()

    def has_turn(self, lane: str) -> bool:
        """Return whether a turn runs on the lane."""
        return lane in self._calls

    def is_watched(self, lane: str) -> bool:
        return any(watcher.is_open for watcher in self._lanes.get(lane, ()))

    def close(self) -> None:
        """End every watch, because the process shuts down."""
        for watcher in self._all_watchers():
            watcher.close()


def _merge(
    last: SessionEvent | SessionNews | None, event: SessionEvent | SessionNews
) -> SessionEvent | SessionNews | None:
    """Return both events merged, if no information is lost."""
    if isinstance(event, SessionNews):
        if not isinstance(last, SessionNews) or last.session != event.session:
            return None
        merged = _merge_events(last.event, event.event)
        return None if merged is None else SessionNews(event.session, merged)
    return None if isinstance(last, SessionNews) else _merge_events(last, event)


def merge_watched(last: WatchEvent, event: WatchEvent) -> WatchEvent | None:
    """Return both events merged, if no information is lost."""
    merged = _merge_events(last, event)
    return merged if isinstance(merged, TextDelta | ThinkingDelta | ToolCallDelta) else None


def _merge_events(last: SessionEvent | None, event: SessionEvent) -> SessionEvent | None:
    match last, event:
        case State(), State():
            return event
        case FileChanged(), FileChanged() if last == event:
            return event
        case TextDelta(text), TextDelta() if len(text) < JOINED_CHARS:
            return TextDelta(text + event.text)
        case ThinkingDelta(text), ThinkingDelta() if len(text) < JOINED_CHARS:
            return replace(event, text=text + event.text)
        case ToolCallDelta(id_, _, text), ToolCallDelta() if (
            id_ == event.id and len(text) < JOINED_CHARS
        ):
            return replace(event, partial_json=text + event.partial_json)
    return None


def _chars(event: SessionEvent | SessionNews) -> int:
    """Return the approximate number of characters in an event.

    Messages of a turn do not count, because the conversation keeps them in memory anyway.
    """
    if isinstance(event, SessionNews):
        return len(event.session) + _chars(event.event)
    if isinstance(event, TextDelta):
        return len(event.text)
    values = (getattr(event, field.name) for field in fields(event))
    texts = (v.values() if isinstance(v, dict) else (v,) for v in values)
    return sum(len(text) for some in texts for text in some if isinstance(text, str))
