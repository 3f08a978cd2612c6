"""Blocks of streamed events and of stored calls."""

from typing import Any

import pytest

from agent import events
from agent.turn.tool_catalog import started_event
from agent.types import Message, Text, ToolCall
from gateway.core.records import Delivered, MessageStored, SessionNews, TurnStored
from gateway.presenter.stored import StoredCalls, TextChange, text_changes
from gateway.presenter.wire import WireBlocks


def call(tool: str, /, **arguments: object) -> ToolCall:
    return ToolCall("1", tool, arguments, "")


def stored_message(message: Message) -> MessageStored:
    return MessageStored(1, 0.0, message)


def tool_result(text: str, *, is_error: bool = False) -> Message:
    return Message("tool", (Text(text),), tool_call_id="1", is_error=is_error)


def result_block(tool_call: ToolCall, text: str, *, is_error: bool = False) -> dict[str, Any]:
    """Return the block of a stored result."""
    blocks = WireBlocks()
    blocks.take(stored_message(Message("assistant", (), (tool_call,))))
    (block,) = blocks.take(stored_message(tool_result(text, is_error=is_error)))
    return block


def test_running_call_has_a_title_in_parts() -> None:
    blocks = WireBlocks()
    tool_call = call("edit_file", path="a.py")
    (block,) = blocks.take(started_event(tool_call))
    assert block["id"] == "1"
    assert block["title"] == [["Editing ", ""], ["a.py", "path"]]
    result = events.ToolResulted("1", "edit_file", "1 edit", False, 2.0, "-a\n+b")
    (block,) = blocks.take(result)
    assert block["title"] == [["Editing ", ""], ["a.py", "path"]]
    assert block["elapsed"] == "2.0 s"
    assert block["diff"] == "-a\n+b"


def test_call_without_a_result_is_forgotten_with_its_step() -> None:
    blocks = WireBlocks()
    blocks.take(started_event(call("edit_file", path="a.py")))
    blocks.take(events.IterationStart(2, 10))
    (block,) = blocks.take(events.ToolResulted("1", "edit_file", "1 edit", False, 2.0))
    assert ["a.py", "path"] not in block["title"]


def test_stored_reply_has_a_block_for_each_call() -> None:
    tool_calls = (ToolCall("1", "exec", {"command": "ls"}, ""), ToolCall("2", "mcp__x", {}, ""))
    blocks = WireBlocks().take(stored_message(Message("assistant", (Text("I look."),), tool_calls)))
    assert [(block["id"], block["title"][-1][0]) for block in blocks] == [
        ("1", "ls"),
        ("2", "mcp__x"),
    ]


def test_notes_verdicts_and_steps_are_lines() -> None:
    blocks = WireBlocks()
    (note,) = blocks.take(events.Notice("warning", "mind the gap"))
    assert note == {"kind": "note", "style": "warning", "mark": "!", "text": "mind the gap"}
    (verdict,) = blocks.take(events.ApprovalAnswered("n", "me", "once"))
    assert verdict["text"] == "allowed once"
    (step,) = blocks.take(events.FromAgent("explore", "1", "look", {"type": "done"}))
    assert step["text"] == "explore (1) finished"


@pytest.mark.parametrize(
    "event",
    [
        events.TextDelta("words"),
        stored_message(Message("user", (Text("hi"),))),
        stored_message(tool_result("of an unknown call")),
        Delivered("text", "final", "e", True),
        SessionNews("s", events.Notice("info", "x")),
        TurnStored(),
    ],
)
def test_other_events_have_no_blocks(event: Any) -> None:
    assert WireBlocks().take(event) == []


@pytest.mark.parametrize(
    ("tool_call", "diff"),
    [
        (
            call("edit_file", path="a", old_string="x\ny", new_string="z"),
            "--- a\n+++ a\n-x\n-y\n+z",
        ),
        (
            call("edit_file", path="a", edits=[{"old_string": "x", "new_string": ""}, "?"]),
            "--- a\n+++ a\n-x",
        ),
        (call("write_file", path="a\n+b", content="x\n"), "--- a\\u{a}+b\n+++ a\\u{a}+b\n+x"),
        (call("append_file", path="a", content="x"), "--- a\n+++ a\n+x"),
        (call("edit_file", path="a"), None),
        (call("read_file", path="a", content="x"), None),
    ],
)
def test_diff_of_a_stored_change(tool_call: ToolCall, diff: str | None) -> None:
    assert result_block(tool_call, "done")["diff"] == diff
    assert result_block(tool_call, "refused", is_error=True)["diff"] is None


def test_files_sent_by_a_call() -> None:
    sending = call("send_file", paths=["a.txt", "b.txt"])
    assert result_block(sending, "sent")["files"] == ["a.txt", "b.txt"]
    assert result_block(sending, "no such file", is_error=True)["files"] == []
    drawing = call("image_generate", prompt="a cat")
    assert result_block(drawing, "Made cat.png (1,234 bytes).")["files"] == ["cat.png"]


def test_edits_without_previous_content_have_no_old_text() -> None:
    arguments = {"path": "a", "content": "x"}
    assert text_changes("write_file", arguments) == (TextChange("a", None, "x"),)
    assert text_changes("append_file", arguments) == (TextChange("a", "", "x"),)


def test_reused_call_id_belongs_to_the_latest_reply() -> None:
    calls = StoredCalls()
    for tool_call in (call("exec", command="ls"), call("read_file", path="a")):
        list(calls.start(Message("assistant", (), (tool_call,))))
    block = calls.end(tool_result("1 line"))
    assert block is not None
    assert block.heading == "Reading a"
