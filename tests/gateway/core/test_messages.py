import json
import time
from dataclasses import fields, replace
from typing import Any

import pytest

from gateway.core.messages import InboundMessage, Media, MessageOptions, Sender, derive_report

PICTURE = Media("photo", None, "p.jpg", "image/jpeg", 12, remote="AgAC")
HERE = Media("document", "inbox/notes.txt", "notes.txt")


def test_message_is_stored_with_its_files() -> None:
    message = InboundMessage(
        *("telegram", "bot", "7", Sender("7", "Ann"), "7:1", "look", time.time()),
        media=(PICTURE, HERE),
        album="7:99",
    )
    assert InboundMessage.from_json(message.to_json()) == message


def test_message_of_a_newer_kore_is_read_without_unknown_fields() -> None:
    message = InboundMessage("cli", "local", "x", Sender("7"), "1", "hi", 1.0, media=(HERE,))
    data = json.loads(message.to_json())
    newer = {**data, "colour": "red", "media": [{**data["media"][0], "depth": 3}]}
    assert InboundMessage.from_json(json.dumps(newer)) == message


@pytest.mark.parametrize("missing", ["kind", "options", "media", "sender"])
def test_message_without_a_required_field_is_rejected(missing: str) -> None:
    message = InboundMessage("cli", "local", "x", Sender("7"), "1", "hi", 1.0)
    stored = {key: value for key, value in json.loads(message.to_json()).items() if key != missing}
    with pytest.raises(KeyError, match=missing):
        InboundMessage.from_json(json.dumps(stored))


def test_file_is_awaited_until_available_or_failed() -> None:
    assert PICTURE.is_awaited
    assert not HERE.is_awaited
    assert not Media("photo", remote="AgAC", trouble="too large").is_awaited


def everything_set() -> InboundMessage:
    """Return a message in which no field has its default."""
    fields: dict[str, Any] = {
        "thread_id": "5",
        "message_id": "9",
        "quoted": "before",
        "quoted_id": "8",
        "quoted_own": True,
        "quoted_from": "Bob",
        "edited": True,
        "private": False,
        "forwarded": True,
        "forwarded_from": "News",
        "kind": "button",
        "options": MessageOptions(model="big", project={"text": "x"}, run=({"text": "y"},)),
        "pressed_on": "3",
        "task": 1,
        "lane": "task:1",
        "job": 2,
        "media": (PICTURE,),
        "album": "7:99",
        "follows": True,
        "unknown": True,
        "language": "de",
    }
    return InboundMessage("telegram", "bot", "7", Sender("7", "Ann"), "7:1", "look", 1.0, **fields)


def test_derived_message_copies_only_people_and_place() -> None:
    cause = everything_set()
    derived = cause.derive("subagent_task", "task:4", "look", 2.0, options=MessageOptions(), task=4)
    passed_on = {
        "channel": "telegram",
        "account": "bot",
        "chat_id": "7",
        "thread_id": "5",
        "private": False,
        "sender": Sender("7", "Ann"),
        "language": "de",
        "job": 2,
    }
    own = {"kind": "subagent_task", "event_id": "task:4", "content": "look", "received_at": 2.0}
    assert derived == InboundMessage(**{**passed_on, **own, "task": 4})
    defaults = {field.name: field.default for field in fields(InboundMessage)}
    changed = [name for name, value in defaults.items() if getattr(cause, name) != value]
    assert sorted(changed) == sorted(defaults), "a new field is set in the cause, too"


def test_report_names_all_speakers_and_none_of_their_messages() -> None:
    before = replace(everything_set(), sender=Sender("8", "Bob"), task=None)
    cause = everything_set()
    report = derive_report(
        [before, cause], "command_report", "command:1", "It ended.", 2.0, session="s", taint=()
    )
    assert report.options == MessageOptions(
        model="big", session="s", speakers=(Sender("8", "Bob"),)
    )
    assert report.media == ()


OPTIONS = {
    "model": "offline/echo",
    "auto": True,
    "allowed_tools": [],
    "agent": {"name": "critic"},
    "max_iterations": 3,
    "max_cost_usd": 0.5,
    "project": {"text": "a", "taint": ["private"], "evicted": 0},
    "run": [{"text": "b", "taint": []}],
    "session": "s",
    "taint": ["untrusted"],
    "by_model": True,
    "plan": "1. Rename it.",
    "speakers": [{"id": "8", "name": "Bob"}],
}


def test_only_set_options_are_stored() -> None:
    assert MessageOptions().to_json() == {}
    options = MessageOptions.from_json(OPTIONS)
    assert options.speakers == (Sender("8", "Bob"),)
    assert options.allowed_tools == ()
    stored = options.to_json()
    assert MessageOptions.from_json(stored) == options
    assert stored.keys() == OPTIONS.keys()


def test_invalid_options_are_dropped_and_invalid_tools_allow_no_tool() -> None:
    wrong = {"auto": "true", "model": 3, "max_iterations": True, "allowed_tools": "exec", "x": 1}
    assert MessageOptions.from_json(wrong) == MessageOptions(allowed_tools=())
    lists = {"run": 5, "taint": "untrusted", "speakers": [1, {"name": "Bob"}]}
    assert MessageOptions.from_json(lists) == MessageOptions()
    newer = {"speakers": [{"id": "8", "name": "Bob", "pronouns": "he"}], "taint": ["secret"]}
    assert MessageOptions.from_json(newer) == MessageOptions(speakers=(Sender("8", "Bob"),))
