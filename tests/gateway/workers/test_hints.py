"""What processes tell each other may be forged, or of another version: it harms nobody."""

import json

import pytest

from agent.events import Notice, TextDelta
from agent.serialization import dumps
from gateway.core.event_hub import EventHub
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
def test_a_hint_is_read_as_it_was_sent(hint: Hint) -> None:
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
    ],
)
def test_what_is_no_hint_is_ignored(message: bytes) -> None:
    assert decode(message) is None


async def test_an_event_that_cannot_be_read_hides_no_other() -> None:
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
    assert json.loads(encode(hint))["worker"] == 1
