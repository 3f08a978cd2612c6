"""JSON serialization, compatible with other versions."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import events
from agent.approvals import (
    ApprovalRequest,
    CommandPrefix,
    QuestionLine,
    QuestionOption,
    QuestionView,
    ServerQuestion,
)
from agent.errors import KoreError
from agent.serialization import (
    dumps,
    event_from_json,
    event_to_json,
    message_from_json,
    message_to_json,
    result_from_json,
    result_to_json,
    safe_text,
)
from agent.types import (
    Image,
    Message,
    RedactedThinking,
    Result,
    Text,
    Thinking,
    ToolCall,
    Usage,
    user,
)
from tests.agent.strategies import ANY_MESSAGE, ANY_TEXT, JSON

RESULT = Result(
    True,
    "hi",
    "s",
    (user("a", "[noon]"), Message("tool", (Text("x"),), (), "c1", True)),
    Usage(3, 2, 1),
    "DECIDE",
    "why",
    "cancelled",
    "rejected",
)
EVENTS: list[events.Event] = [
    events.SessionCreated("s", "plans"),
    events.SessionClosed("s"),
    events.SessionStart("s", "openai", "gpt"),
    events.IterationStart(1, 50),
    events.Steered("rather in green"),
    events.TextDelta("hi"),
    events.ThinkingDelta("hm", 2),
    events.ThinkingEnd("hm"),
    events.ToolCallDelta("c1", "exec", "{"),
    events.ToolStart("c1", "exec", {"command": ["ls"]}),
    events.ToolOutput("c1", "out", "stderr", 3),
    events.ToolResulted("c1", "exec", "ok", False, 0.5, "-a\n+b", 7, "/spill/x.txt"),
    events.ApprovalAsked("n", ApprovalRequest("exec", {"command": "ls"}, "why"), 1, 60.0),
    events.ApprovalAsked(
        "n",
        ApprovalRequest(
            "exec",
            {"command": "ls"},
            "why",
            folder=Path("/w"),
            prefixes=(CommandPrefix(("git", "commit"), "hash"),),
            network=("a.example",),
            server_question=ServerQuestion("s", "Which?", ("a", "b")),
        ),
        view=QuestionView(
            "exec",
            (QuestionLine("code", "ls"),),
            (QuestionOption("y", "Allow once", "once"),),
        ),
    ),
    events.ApprovalAnswered("n", "owner", "once"),
    events.StreamEnd(None),
    events.State("planning"),
    events.Compacted(10, 5, 3, 2, 1),
    events.GoalChanged("paused", "all tests pass", 3, 20, "question", "which port?"),
    events.Evicted(3, "Context full, 3 files evicted"),
    events.Retry("busy", 2, 3, 0.5),
    events.UsageReport(Usage(1, 2, 3)),
    events.FileChanged("a.txt", "tool"),
    events.ContextInvalidated("a.txt", ("main", "explore")),
    events.Signalled("BLOCKED", None),
    events.AgentChanged("triage", "billing"),
    events.AttentionNeeded("question"),
    events.Notice("info", "x"),
    events.Error("rejected", "no", None),
    events.Done(RESULT),
    events.FromAgent("explore", "3", "look", {"type": "notice", "level": "info", "text": "x"}),
]


def through_json(value: Any) -> Any:
    return json.loads(dumps(value).encode("utf-8"))


def clean(message: Message) -> Message:
    """Return the message without lone surrogates, which files cannot contain."""
    return message_from_json(
        json.loads(safe_text(json.dumps(message_to_json(message), ensure_ascii=False)))
    )


@given(ANY_MESSAGE)
def test_message_survives_round_trip(message: Message) -> None:
    assert message_from_json(message_to_json(message)) == message
    assert message_from_json(through_json(message_to_json(message))) == clean(message)


@given(JSON)
def test_dumps_is_valid_utf_8_on_one_line(value: object) -> None:
    text = dumps(value)
    assert "\n" not in text
    text.encode("utf-8")


@given(ANY_TEXT)
def test_safe_text_changes_nothing_but_lone_surrogates(text: str) -> None:
    safe = safe_text(text)
    assert len(safe) == len(text)
    pairs = zip(text, safe, strict=True)
    assert all(a == b or ("\ud800" <= a <= "\udfff" and b == "\ufffd") for a, b in pairs)


def test_every_event_has_an_example() -> None:
    assert {type(event) for event in EVENTS} == set(events.Event.__args__)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_event_survives_round_trip(event: events.Event) -> None:
    data = through_json(event_to_json(event))
    assert next(iter(data)) == "type"
    assert data["type"] == event.type
    assert event_from_json(data) == event


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_fields_of_a_newer_version_are_ignored(event: events.Event) -> None:
    data = event_to_json(event) | {"colour": "red"}
    for inner in ("result", "usage"):
        if inner in data:
            data[inner] = data[inner] | {"colour": "red"}
    assert event_from_json(data) == event


def test_message_of_a_newer_version_is_read() -> None:
    call = ToolCall("c1", "t", {"a": 1}, '{"a": 1}')
    message = Message("assistant", (Thinking("hm", "sig"), Text("x")), (call,))
    data = message_to_json(message) | {"mood": "good"}
    data["content"] = [part | {"mood": "good"} for part in data["content"]]
    data["tool_calls"] = [tool_call | {"mood": "good"} for tool_call in data["tool_calls"]]
    assert message_from_json(data) == message


def test_image_is_written_as_base64_and_read_as_bytes() -> None:
    message = Message("user", (Image("image/png", b"\x89PNG\xff"), RedactedThinking("ab==")))
    data = message_to_json(message)
    assert data["content"][0] == {"type": "image", "media_type": "image/png", "data": "iVBOR/8="}
    assert message_from_json(through_json(data)) == message


def test_result_survives_round_trip() -> None:
    assert result_from_json(through_json(result_to_json(RESULT))) == RESULT


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"role": "user"},
        {"role": "user", "content": 5},
        {"role": "user", "content": [{"type": "hologram"}]},
        {"role": "user", "content": [{}]},
        {"role": "user", "content": [{"type": "image", "media_type": "image/png", "data": "a"}]},
        {"role": "assistant", "content": [], "tool_calls": [{"id": "c1"}]},
    ],
)
def test_invalid_message_is_rejected(data: dict[str, Any]) -> None:
    with pytest.raises(KoreError):
        message_from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"type": "hologram"},
        {"type": "text_delta"},
        {"type": "usage", "usage": None},
        {"type": "done", "result": {}},
    ],
)
def test_invalid_event_is_rejected(data: dict[str, Any]) -> None:
    with pytest.raises(KoreError):
        event_from_json(data)


@given(st.lists(ANY_MESSAGE, max_size=3))
def test_event_with_any_messages_is_one_line(messages: list[Message]) -> None:
    done = events.Done(Result(True, "x", "s", tuple(messages)))
    assert "\n" not in dumps(event_to_json(done))
