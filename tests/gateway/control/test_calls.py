"""The table of calls: its derivation from `Service`, and its errors for invalid input."""

import hashlib
import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

import pytest

from agent.approvals import ApprovalRequest
from agent.errors import KoreError
from agent.types import Message
from gateway.control.calls import call_names, find_call
from gateway.control.protocol import PROTOCOL
from gateway.core.approval import ApprovalPrompt
from gateway.core.messages import InboundMessage, Media, MessageOptions, Route, Sender
from gateway.core.records import Delivered, NewJob, SessionEvent, WatchEvent

# After a change to the calls or to a record, raise PROTOCOL, then put the new digest here.
TABLE_DIGEST = {37: "53d2ef1ac400"}


def fingerprint(kind: Any, seen: set[Any]) -> str:
    """Return a description of a type that includes the fields of its records."""
    # Messages and events have their own documented formats.
    if kind is Message or kind in (WatchEvent, SessionEvent):
        return "a documented form"
    if kind in seen:
        return str(kind.__name__)
    if isinstance(kind, type) and is_dataclass(kind):
        seen.add(kind)
        hints = get_type_hints(kind)
        parts = [f"{part.name}: {fingerprint(hints[part.name], seen)}" for part in fields(kind)]
        return f"{kind.__name__}({', '.join(parts)})"
    parts = [fingerprint(part, seen) for part in get_args(kind)]
    # Python versions use different names for a union and its members.
    name = "Union" if isinstance(kind, UnionType) else getattr(kind, "__name__", repr(kind))
    return f"{name}[{', '.join(parts)}]"


def test_admin_arguments_are_arguments_of_their_call() -> None:
    for name in call_names():
        call = find_call(name)
        assert call is not None
        assert set(call.declaration.admin_arguments) <= set(call.arguments)


def test_changed_table_has_a_new_protocol_number() -> None:
    table = []
    for name in sorted(call_names()):
        call = find_call(name)
        assert call is not None
        types = [*call.arguments.values(), call.result]
        table.append((name, list(call.arguments), [fingerprint(kind, set()) for kind in types]))
    digest = hashlib.sha256(json.dumps(table).encode()).hexdigest()[:12]
    assert {PROTOCOL: digest} == TABLE_DIGEST


def test_table_contains_name_arguments_and_result_of_each_call() -> None:
    shapes: dict[str, list[str]] = {}
    for name in call_names():
        call = find_call(name)
        assert call is not None
        assert call.summary
        shapes.setdefault(call.shape, []).append(name)
    assert shapes["stream"] == [
        *("watch", "follow_session", "follow_sessions", "call_model", "serve_editor"),
        *("attach_servers", "follow_terminal"),
    ]
    assert {"list_sessions", "load_messages", "export_session"} <= set(shapes["list"])
    assert {"submit", "hand_over", "status"} <= set(shapes["value"])
    search = find_call("search_messages")
    assert search is not None
    assert dict(search.arguments) == {"words": str, "limit": int}
    assert find_call("__init__") is None


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("search_messages", {}, "search_messages: the argument 'words' is missing"),
        ("search_messages", {"words": 1}, "search_messages.words: found 1, expected a string"),
        (
            "search_messages",
            {"words": "x", "limit": True},
            "search_messages.limit: found True, expected an integer",
        ),
        ("status", {"deep": 1}, "status: unknown argument 'deep'"),
        (
            "set_session_status",
            {"session": "s", "status": "gone"},
            "set_session_status.status: found 'gone', expected one of open, paused, closed",
        ),
        ("bind_session", {"lane": None, "session": None}, "bind_session.lane: found None"),
        ("backup", {"target": ["a"]}, "backup.target: found a list, expected a path"),
        ("submit", {"message": "hi"}, "submit.message: found 'hi', expected an object"),
        ("submit", {"message": {}}, "submit.message: 'channel' is missing"),
        (
            "submit",
            {"message": {"channel": "cli"}},
            "submit.message: 'account' is missing",
        ),
        (
            "add_job",
            {"job": {"key": "k", "when": "now", "text": "x", "urgent": "yes"}},
            "add_job.job.urgent: found 'yes', expected true or false",
        ),
    ],
)
def test_invalid_arguments_are_rejected_in_one_sentence(
    name: str, arguments: dict[str, Any], sentence: str
) -> None:
    call = find_call(name)
    assert call is not None
    with pytest.raises(KoreError) as caught:
        call.decode_arguments(arguments)
    assert str(caught.value).startswith(sentence)


def message() -> InboundMessage:
    media = Media("photo", "x" * 8)
    return InboundMessage(
        "cli",
        "local",
        "c",
        Sender("0", "字"),
        "e1",
        "hi",
        1.0,
        options=MessageOptions(run=({"text": "a"},)),
        media=(media,),
    )


ROUTE = Route("c", "a", "1")
REQUEST = ApprovalRequest("exec", {"command": "ls"}, "why", command="ls", folder=Path("/w"))
QUESTION = ApprovalPrompt("n", 1, "t", REQUEST, "lane", "s", "a", "p", ROUTE, 1.0, 2.0)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("submit", {"message": message()}),
        ("open_console", {"session": None, "fresh": True}),
        ("add_job", {"job": NewJob("k", "tomorrow", "x", zone="Europe/Berlin")}),
        ("backup", {"target": Path("/a/b.db")}),
        ("revoke_grants", {"grant": 7}),
    ],
)
def test_arguments_survive_json_round_trip(name: str, arguments: dict[str, Any]) -> None:
    call = find_call(name)
    assert call is not None
    sent = json.loads(json.dumps(call.encode_arguments(arguments.values(), {})))
    assert call.decode_arguments(sent) == arguments
    assert call.encode_arguments((), arguments) == call.encode_arguments(arguments.values(), {})


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("list_approvals", QUESTION),
        ("watch", Delivered("hi", "final", None, True)),
        ("hand_over", None),
        ("hand_over", ["cli:local:once-1"]),
        ("last_session", "s"),
    ],
)
def test_results_survive_json_round_trip(name: str, result: Any) -> None:
    call = find_call(name)
    assert call is not None
    assert call.decode_result(json.loads(json.dumps(call.encode_result(result)))) == result


def test_path_is_sent_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call = find_call("backup")
    assert call is not None
    assert call.encode_arguments((Path("copy.db"),), {}) == {"target": str(tmp_path / "copy.db")}
