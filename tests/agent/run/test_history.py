"""Storage and validation of conversations."""

from pathlib import Path

import pytest
from hypothesis import given

from agent.context.history_validation import (
    close_unanswered_calls,
    is_valid,
    repair,
    tool_message,
    unanswered_calls,
)
from agent.errors import KoreError
from agent.prompts import load_prompt
from agent.run.history import History, JsonlHistory
from agent.types import Message, assistant, user
from tests.agent.props import call, calls
from tests.agent.strategies import ANY_CONVERSATION, rounds

ONE, TWO = call("t", "c1"), call("t", "c2")


async def test_session_is_stored_message_by_message(history: History) -> None:
    talk = [
        user("grüß dich 🙂", "[noon]"),
        calls(ONE, text="wait"),
        tool_message(ONE, "ok\n\r\u2028"),
    ]
    assert await history.load("s") == []
    await history.append("s", talk[:1])
    await history.append("s", talk[1:])
    await history.append("other", [user("x")])
    assert await history.load("s") == talk


async def test_loaded_history_is_a_copy(history: History) -> None:
    await history.append("s", [user("a")])
    loaded = await history.load("s")
    assert isinstance(loaded, list)
    loaded.append(user("b"))
    assert await history.load("s") == [user("a")]


async def test_only_the_owner_can_read_conversations(tmp_path: Path) -> None:
    history = JsonlHistory(tmp_path / "home" / "chats")
    await history.append("s", [user("hi")])
    await history.set_file_views("s", "{}")
    entries = sorted((tmp_path / "home").rglob("*"))
    assert [entry.name for entry in entries] == ["chats", ".views", "s.json", "s.jsonl"]
    modes = [entry.stat().st_mode & 0o777 for entry in (tmp_path / "home", *entries)]
    assert modes == [0o700, 0o700, 0o700, 0o600, 0o600]


@pytest.mark.parametrize("tail", [b'{"role":"user","con', "\u00fc".encode()[:1], b"\x00"])
async def test_line_truncated_by_a_crash_is_dropped(tmp_path: Path, tail: bytes) -> None:
    history = JsonlHistory(tmp_path)
    await history.append("s", [user("whole")])
    path = tmp_path / "s.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert await history.load("s") == [user("whole")]
    assert path.read_bytes() == whole
    await history.append("s", [assistant("next")])
    assert await history.load("s") == [user("whole"), assistant("next")]


@pytest.mark.parametrize("line", [b"nonsense", b"[1]", b"7", b'{"role":"user"}', b"\xff\xff", b""])
async def test_damaged_line_is_reported_and_the_file_is_unchanged(
    tmp_path: Path, line: bytes
) -> None:
    history = JsonlHistory(tmp_path)
    await history.append("s", [user("a")])
    path = tmp_path / "s.jsonl"
    path.write_bytes(path.read_bytes() + line + b"\n")
    before = path.read_bytes()
    with pytest.raises(KoreError, match=r"s\.jsonl, line 3: not a valid message"):
        await history.load("s")
    assert path.read_bytes() == before


async def test_first_line_names_the_session(tmp_path: Path) -> None:
    history = JsonlHistory(tmp_path)
    await history.append("s", [user("\ud83d half")])
    lines = (tmp_path / "s.jsonl").read_text("utf-8").splitlines()
    assert lines[0] == '{"_type":"meta","id":"s"}'
    assert (await history.load("s"))[0].text == "\ufffd half"


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a\\b", "a\0b"])
async def test_session_name_cannot_leave_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(KoreError, match="plain file name"):
        await JsonlHistory(tmp_path).load(name)


def test_unanswered_calls_are_those_at_the_end() -> None:
    talk = [user("go"), calls(ONE, TWO)]
    assert unanswered_calls([]) == ()
    assert unanswered_calls(talk) == (ONE, TWO)
    assert unanswered_calls([*talk, tool_message(ONE, "x")]) == (TWO,)
    assert unanswered_calls([*talk, tool_message(ONE, "x"), tool_message(TWO, "y")]) == ()
    assert unanswered_calls([*talk, user("other")]) == ()


def test_unanswered_calls_get_their_known_result_or_an_interruption_notice() -> None:
    known = {"c2": tool_message(TWO, "known")}
    result, two = close_unanswered_calls([calls(ONE, TWO)], known)
    assert (result.text, result.is_error, two.text) == (load_prompt("interrupted"), True, "known")


@pytest.mark.parametrize(
    "broken",
    [
        [tool_message(ONE, "x")],
        [user("a"), calls(ONE)],
        [user("a"), calls(ONE), user("b")],
        [user("a"), calls(ONE, TWO), tool_message(TWO, "y"), tool_message(ONE, "x")],
        [user("a"), calls(ONE), tool_message(TWO, "y")],
        [user("a"), calls(ONE), tool_message(ONE, "x"), tool_message(ONE, "x")],
        [user("a"), calls(ONE, ONE), tool_message(ONE, "x"), tool_message(ONE, "x")],
    ],
)
def test_broken_conversation_is_detected_and_repaired(broken: list[Message]) -> None:
    assert not is_valid(broken)
    assert is_valid(repair(broken))


def test_repair_keeps_results_and_orders_them() -> None:
    swapped = [calls(ONE, TWO), tool_message(TWO, "y"), tool_message(ONE, "x")]
    assert [message.text for message in repair(swapped)] == ["", "x", "y"]


@given(ANY_CONVERSATION)
def test_repair_makes_any_conversation_valid_and_loses_no_text(messages: list[Message]) -> None:
    repaired = repair(messages)
    assert is_valid(repaired)
    assert repair(repaired) == repaired
    assert [m.role for m in messages if m.role != "tool"] == [
        m.role for m in repaired if m.role != "tool"
    ]
    if is_valid(messages):
        assert repaired == messages


@given(rounds())
def test_repair_does_not_change_valid_conversations(messages: list[Message]) -> None:
    assert is_valid(messages)
    assert repair(messages) == messages
    assert repair(messages) is not messages
