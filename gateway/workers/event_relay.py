"""Live events of turns that workers run, relayed to the front process and its watchers."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from agent.errors import KoreError
from agent.events import Error
from gateway.control.protocol import watch_event_from_json, watch_event_to_json
from gateway.core.event_hub import EventHub, merge_watched
from gateway.core.records import WatchEvent
from gateway.workers.hints import EventsHint

log = logging.getLogger(__name__)

# Pieces of an answer that follow within this time are sent together.
_GATHER_S = 0.03
_MAX_EVENTS = 200


class RelayedEvents(EventHub):
    """Event hub of a worker without watchers: it relays all events to the front, in order.

    `number` is the worker's number; `send` transmits the collected events.
    """

    def __init__(self, number: int, send: Callable[[EventsHint], None]) -> None:
        super().__init__()
        self._number = number
        self._send = send
        self._gathered: list[tuple[str, WatchEvent | Mapping[str, Any]]] = []
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def turn(self, lane: str, session: str) -> Iterator[None]:
        self._add(lane, {"begins": session})
        try:
            yield
        finally:
            self._add(lane, {"ends": session})
            self.flush()

    def publish(self, lane: str, event: WatchEvent, session: str | None = None) -> None:
        if session is not None:
            self._add(lane, {"event": watch_event_to_json(event), "session": session})
            return
        if self._gathered and self._gathered[-1][0] == lane:
            last = self._gathered[-1][1]
            merged = None if isinstance(last, Mapping) else merge_watched(last, event)
            if merged is not None:
                self._gathered[-1] = lane, merged
                return
        self._add(lane, event)

    def publish_suspended(self, lanes: Collection[str], session: str, event: WatchEvent) -> None:
        first, *others = sorted(lanes)
        self.publish(first, event, session)
        for lane in others:
            self.publish(lane, event)

    def end_turn(self, session: str) -> None:
        self._add("", {"stored": session})
        self.flush()

    def fail(self, lane: str, failure: KoreError) -> None:
        """Relay a failure observed by this worker; the front notices failures of the database
        itself.
        """
        self.publish(lane, Error("error", str(failure), failure.hint))

    def flush(self) -> None:
        """Send collected events, before any hint that must follow them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, []
        self._send(EventsHint(self._number, tuple(_to_json(*item) for item in gathered)))

    def _add(self, lane: str, what: WatchEvent | Mapping[str, Any]) -> None:
        self._gathered.append((lane, what))
        if len(self._gathered) >= _MAX_EVENTS:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER_S, self.flush)


class EventReceiver:
    """Receiver in the front that shows its watchers the events of workers."""

    def __init__(self, events: EventHub) -> None:
        self._events = events
        # By lane, with the number of the worker that runs it.
        self._turns: dict[str, tuple[int, ExitStack]] = {}

    def receive(self, hint: EventsHint) -> None:
        for event in hint.events:
            try:
                self._show(hint.worker, event)
            except (KoreError, LookupError, TypeError, ValueError, AttributeError) as exc:
                # Sent by a newer version during an upgrade. The result is stored at the end anyway.
                log.debug("an event of worker %d cannot be shown: %s", hint.worker, exc)

    def keep_only(self, workers: Collection[int]) -> None:
        """End the turns of all other workers here; they have stopped, and others continue them."""
        for lane in [lane for lane, (worker, _) in self._turns.items() if worker not in workers]:
            self._close(lane)

    def _show(self, worker: int, entry: Mapping[str, Any]) -> None:
        lane = entry.get("lane", "")
        if (session := entry.get("begins")) is not None:
            self._close(lane)
            stack = ExitStack()
            stack.enter_context(self._events.turn(lane, session))
            self._turns[lane] = worker, stack
        elif "ends" in entry:
            # Another worker may have continued the turn in the meantime.
            if lane in self._turns and self._turns[lane][0] == worker:
                self._close(lane)
        elif (session := entry.get("stored")) is not None:
            self._events.end_turn(session)
        elif (event := entry.get("event")) is not None:
            self._events.publish(lane, watch_event_from_json(event), entry.get("session"))

    def _close(self, lane: str) -> None:
        if lane in self._turns:
            _, stack = self._turns.pop(lane)
            stack.close()


def _to_json(lane: str, what: WatchEvent | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(what, Mapping):
        return {"lane": lane, **what}
    return {"lane": lane, "event": watch_event_to_json(what)}
