"""Hints between processes, which are harmless if forged or of another version."""

from contextlib import AbstractContextManager

import pytest

from agent.events import Notice, TextDelta
from agent.serialization import dumps
from gateway.core.event_hub import EventHub, Subscription
from gateway.workers.event_relay import EventReceiver
from gateway.workers.hints import (
    EventsHint,
    Hint,
    JobsHint,
    LaneHint,
    SettledHint,
    decode,
    encode,
)

LANE, SESSION = "telegram:1:7", "20261126_200000"


@pytest.mark.parametrize(
    "hint",
    [
        LaneHint(LANE, 3),
        SettledHint("nonce", "value"),
        JobsHint(),
        EventsHint(2, ({"lane": LANE, "begins": SESSION},)),
    ],
)
def test_hint_survives_round_trip(hint: Hint) -> None:
    assert decode(encode(hint)) == hint


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"no JSON",
        b"[]",
        b"null",
        b'{"kind": []}',
        b'{"kind": "of another version"}',
        b'{"kind": "lane"}',
        b'{"kind": "lane", "lane": 5, "to": 1}',
        b'{"kind": "lane", "lane": "a", "to": "1"}',
        b'{"kind": "lane", "lane": "a", "to": true}',
        b'{"kind": "lane", "lane": "a", "to": 1, "more": 1}',
        b'{"kind": "events", "worker": 1, "events": 5}',
        b'{"kind": "events", "worker": 1, "events": ["x"]}',
        b"[" * 100_000,
        b'{"kind": "mail", "lane": "telegram:1:\\ud800"}',
        b'{"kind": "events", "worker": 1, "events": [{"lane": "\\udfff"}]}',
    ],
)
def test_invalid_hint_is_ignored(message: bytes) -> None:
    assert decode(message) is None


async def test_unreadable_event_does_not_hide_others() -> None:
    events = EventHub()
    receiver = EventReceiver(events)
    good = {"lane": LANE, "event": {"type": "text_delta", "text": "hello"}}
    bad: list[object] = [
        {"lane": LANE, "event": {"type": "of another version"}},
        {"lane": LANE, "event": {"type": "text_delta"}},
        {"lane": LANE, "event": 5},
        {"lane": [], "begins": SESSION},
        {},
    ]
    hint = decode(dumps({"kind": "events", "worker": 1, "events": [*bad, good]}).encode())
    assert isinstance(hint, EventsHint)
    with events.watch(LANE) as watch:
        receiver.receive(hint)
        events.publish(LANE, Notice("info", "last"))
        events.close()
        shown = [event async for event in watch]
    assert shown == [TextDelta("hello"), Notice("info", "last")]


def follow(events: EventHub) -> AbstractContextManager[Subscription]:
    """Follow the session, which shows a turn on its lane only while the turn is known to run."""
    return events.watch("cli:local:other", SESSION)


async def shown_after(*hints: EventsHint, alive: set[int] | None = None) -> list[object]:
    """Return the events that a follower gets from the last hint."""
    events = EventHub()
    receiver = EventReceiver(events)
    with follow(events) as watch:
        for hint in hints[:-1]:
            receiver.receive(hint)
        if alive is not None:
            receiver.keep_only(alive)
        receiver.receive(hints[-1])
        events.close()
        return [event async for event in watch]


def begins(worker: int) -> EventsHint:
    return EventsHint(worker, ({"lane": LANE, "begins": SESSION},))


def text(worker: int) -> EventsHint:
    return EventsHint(worker, ({"lane": LANE, "event": {"type": "text_delta", "text": "on"}},))


async def test_late_end_of_a_worker_hides_no_event_of_the_next() -> None:
    late = EventsHint(1, ({"lane": LANE, "ends": SESSION},))
    assert await shown_after(begins(1), begins(2), late, text(2)) == [TextDelta("on")]
    assert await shown_after(begins(1), begins(2), text(2), alive={2}) == [TextDelta("on")]


async def test_turn_of_a_dead_worker_has_ended() -> None:
    assert await shown_after(begins(1), text(1), alive={2}) == []
