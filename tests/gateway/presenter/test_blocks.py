"""Blocks of events: one table for all screens and chats."""

from typing import Any

import pytest

from agent import events
from agent.i18n import use_locale
from agent.tools.traits import TOOL
from agent.turn.tool_catalog import started_event
from agent.types import Result, ToolCall, ToolKind, Usage
from gateway.presenter.blocks import (
    Block,
    Style,
    call_block,
    call_title,
    note_block,
    step_block,
    thought_block,
    title_text,
    verdict_block,
)
from gateway.presenter.text import seconds, whole_seconds, without_ansi
from gateway.presenter.turn import TurnPresenter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def start(tool: str, /, **arguments: object) -> events.ToolStart:
    return started_event(ToolCall("1", tool, arguments, ""))


def result(content: str, kind: ToolKind = "other", **more: Any) -> events.ToolResulted:
    values = {"is_error": False, "elapsed_s": 0.1, **more}
    return events.ToolResulted("1", "tool", content, kind=kind, **values)


def subagent_event(kind: str, number: str = "1", **more: object) -> events.FromAgent:
    return events.FromAgent("explore", number, "look around", {"type": kind, **more})


def final_blocks(presenter: TurnPresenter, *turn_events: events.Event) -> list[tuple[str, str]]:
    """Return kind and text of the final blocks of these events; for a call, its heading."""
    return [_summary(block) for event in turn_events for block in presenter.take(event)]


def live_blocks(presenter: TurnPresenter) -> list[tuple[str, str]]:
    return [_summary(block) for block in presenter.live()]


def _summary(block: Block) -> tuple[str, str]:
    return block.kind, block.heading if block.kind == "call" else block.text


@pytest.mark.parametrize(
    ("call", "heading"),
    [
        (start("read_file", path="src/x.py"), "Reading src/x.py"),
        (start("exec", command="ls -l\nwc"), "Running ls -l wc"),
        (start("exec", command="uv run pytest -q"), "Running the tests: uv run pytest -q"),
        (start("exec", command="npm test"), "Running the tests: npm test"),
        (start("web_fetch", url="https://e.example/a?k=1"), "Reading https://e.example/a?k=1"),
        (start("task", description="review it"), "Waiting for a sub-agent: review it"),
        (
            start("task", subagent_type="explore", description="look", prompt="x"),
            "Waiting for a sub-agent: explore look",
        ),
        (
            start("process", action="input", id=2, text="yes\n"),
            "Background command: input 2 yes",
        ),
        (start("process", action="list"), "Background command: list"),
        (start("todo", items=[{"content": "a"}]), "Updating the to-do list"),
        (start("read_file"), "Using read_file"),
        (start("mcp__git__log", query="x"), "Using mcp__git__log x"),
        (start("mcp__git__log", repo="x"), 'Using mcp__git__log {"repo": "x"}'),
        (start("read_file", path="a\x1b[31m\u202e.txt"), "Reading a\\u{1b}[31m\\u{202e}.txt"),
    ],
)
def test_heading_of_a_call(call: events.ToolStart, heading: str) -> None:
    assert call_block(call).heading == heading


def test_heading_is_one_line_of_limited_length() -> None:
    heading = call_block(start("exec", command="echo 1\necho 2 " + "x" * 1000)).heading
    assert heading.startswith("Running echo 1 echo 2 x")
    assert len(heading) == 200
    assert heading.endswith("…")


def test_title_is_in_the_current_language() -> None:
    with use_locale("zh-Hans"):
        title = call_title("edit_file", {"path": "a.py"}, "edit", "Editing {path}")
    assert title_text(title) == "正在修改 a.py"
    assert [part.text for part in title if part.argument == "path"] == ["a.py"]


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (result("one"), ["one"]),
        (result(""), ["nothing"]),
        (result("one", elapsed_s=1.0), ["one (1.0 s)"]),
        (result("1\n2\n3\n4"), ["1", "2", "3", "4"]),
        (result("1\n2\n3\n4\n5", elapsed_s=2.0), ["1", "2", "3", "… 2 more lines (2.0 s)"]),
        (result("1\n2\n3\n4", "read"), ["4 lines"]),
        (result("1 line", "read"), ["1 line"]),
        (result("1\n2", "read", is_error=True), ["1", "2"]),
        (
            result("1\n2\n3\n4\n[exit code 1]", "execute", is_error=True),
            ["… 2 more lines", "3", "4", "[exit code 1]"],
        ),
        (result("50 %\r100 %\n[exit code 0]", "execute"), ["100 %", "[exit code 0]"]),
        (result("\n".join(map(str, range(31))), "plan"), [str(n) for n in range(31)]),
        (result("\x1b[1mbold\x1b[0m"), ["bold"]),
        (result("x" * 300), ["x" * 199 + "…"]),
    ],
)
def test_lines_of_a_result(event: events.ToolResulted, lines: list[str]) -> None:
    assert call_block(start("exec"), event).shown_lines() == lines


@pytest.mark.parametrize(
    ("event", "is_collapsed"),
    [
        (result("short\n[exit code 0]", "execute"), False),
        (result("1\n2", "read"), True),
        (result("1\n2\n3\n4\n5"), True),
        (result("x" * 300), True),
        (result("cut", file="/tmp/whole.txt"), True),
        (result("1 edit", diff="+x\n" * 60), False),
        (result("1 edit", diff="+x\n" * 61), True),
    ],
)
def test_only_a_result_that_is_not_shown_in_full_is_collapsed(
    event: events.ToolResulted, is_collapsed: bool
) -> None:
    assert call_block(start("exec"), event).is_collapsed is is_collapsed


def test_hint_follows_the_note_about_omitted_lines() -> None:
    block = call_block(start("exec"), result("1\n2\n3\n4\n5", elapsed_s=2.0))
    assert block.shown_lines(" (key)")[-1] == "… 2 more lines (key) (2.0 s)"


def test_state_of_a_call() -> None:
    call = start("exec", command="make")
    assert call_block(call).state == "running"
    assert call_block(call, result("")).state == "done"
    failed = call_block(call, result("", is_error=True))
    assert failed.state == "failed"
    assert failed.style == "error"
    stopped = call_block(call, state="stopped")
    assert stopped.shown_lines() == ["stopped"]


def test_long_thought_is_collapsed() -> None:
    assert not thought_block("a thought\nof two lines").is_collapsed
    block = thought_block("\n".join("abcdefghi"))
    assert block.lines == tuple("abcdefgh")
    assert block.omitted == 1
    assert block.is_collapsed


@pytest.mark.parametrize(
    ("event", "mark", "style", "text"),
    [
        (events.Notice("info", "mind\u200b"), "·", "dim", "mind\\u{200b}"),
        (events.Notice("warning", "mind"), "!", "warning", "mind"),
        (
            events.Retry("overloaded", 1, 3, 0.1),
            "↻",
            "dim",
            "retry 1 of 3: overloaded; partial output discarded",
        ),
        (events.Steered("and\ntests"), "↪", "dim", "heard: and tests"),
        (
            events.Compacted(9, 5, 2, 7, summarised=7),
            "·",
            "dim",
            "7 older messages were summarized (/context)",
        ),
        (
            events.Compacted(9, 5, 2, 0),
            "·",
            "dim",
            "old tool results were shortened to save context",
        ),
        (
            events.Compacted(9, 5, 2, 7),
            "·",
            "dim",
            "7 older messages were dropped from the context",
        ),
        (
            events.SessionClosed("s1"),
            "·",
            "dim",
            "conversation s1 was closed; your next message starts a new one",
        ),
        (events.Evicted(2, "too many files"), "·", "dim", "too many files"),
        (events.Signalled("BLOCKED", "no key"), "■", "warning", "BLOCKED: no key"),
        (events.Signalled("COMPLETE", None), "■", "warning", "COMPLETE"),
        (events.Error("auth", "bad key", "set it"), "✗", "error", "bad key (auth)\n  set it"),
        (events.Error("auth", "bad key", None), "✗", "error", "bad key (auth)"),
    ],
)
def test_note_about_an_event(event: events.Event, mark: str, style: Style, text: str) -> None:
    block = note_block(event)
    assert block is not None
    assert block.mark == mark
    assert block.style == style
    assert block.text == text


def test_other_events_have_no_note() -> None:
    assert note_block(events.IterationStart(1, 5)) is None


@pytest.mark.parametrize(
    ("answered", "text"),
    [
        (events.ApprovalAnswered("n", "me", "once"), "allowed once"),
        (events.ApprovalAnswered("n", "me", "session"), "allowed for this session"),
        (events.ApprovalAnswered("n", "me", "always"), "always allowed (exactly this)"),
        (events.ApprovalAnswered("n", "me", "deny", "too\tbroad"), "denied: too\tbroad"),
        (events.ApprovalAnswered("n", "me", "always", prefix="git *"), "always allowed: git *"),
        (
            events.ApprovalAnswered("n", "me", "session", network=("a.example", "b.example")),
            "allowed for this session: network to a.example, b.example",
        ),
        (
            events.ApprovalAnswered("n", "me", "always", network=("a.example",)),
            "always allowed: network to a.example",
        ),
        (events.ApprovalAnswered("n", "me", "once", server="git"), "answered"),
        (events.ApprovalAnswered("n", "me", "deny", server="git"), "not answered"),
    ],
)
def test_answer_to_an_approval(answered: events.ApprovalAnswered, text: str) -> None:
    assert verdict_block(answered).text == text


def test_steps_of_a_subagent() -> None:
    arguments = {"command": "ls"}
    label = "Running {command}"
    step = step_block(subagent_event("tool_start", name="exec", arguments=arguments, label=label))
    assert step is not None
    assert step.text == "explore (1) ● Running ls"
    ended = step_block(subagent_event("done"))
    assert ended is not None
    assert ended.text == "explore (1) finished"
    assert step_block(subagent_event("tool_result")) is None


def test_answer_is_final_block_by_block() -> None:
    presenter = TurnPresenter()
    assert final_blocks(presenter, events.TextDelta("one\n\ntw")) == [("answer", "one")]
    assert live_blocks(presenter) == [("answer", "tw")]
    assert final_blocks(presenter, events.TextDelta("o"), start("exec", command="ls")) == [
        ("answer", "two")
    ]
    assert live_blocks(presenter) == [("call", "Running ls")]


def test_thought_is_live_until_it_ends() -> None:
    presenter = TurnPresenter()
    assert (
        final_blocks(presenter, events.ThinkingDelta("hm, ", 4), events.ThinkingDelta("so", 2))
        == []
    )
    assert live_blocks(presenter) == [("thought", "hm, so")]
    assert final_blocks(presenter, events.ThinkingEnd("hm, so")) == [("thought", "hm, so")]
    assert live_blocks(presenter) == []
    assert final_blocks(presenter, events.ThinkingEnd(" ")) == []


def test_running_call_shows_its_latest_output() -> None:
    presenter = TurnPresenter()
    output = events.ToolOutput("1", "".join(f"{n}\n" for n in range(9)), "stdout")
    final_blocks(presenter, start("exec", command="make"), output)
    (block,) = presenter.live()
    assert block.lines == ("4", "5", "6", "7", "8")
    assert final_blocks(presenter, result("done", "execute")) == [("call", "Running make")]
    assert live_blocks(presenter) == []


def test_retry_discards_the_unfinished_answer() -> None:
    presenter = TurnPresenter()
    final_blocks(presenter, events.TextDelta("half"), events.Retry("cut", 1, 3, 0.1))
    assert live_blocks(presenter) == []


def test_end_of_a_stopped_turn() -> None:
    presenter = TurnPresenter()
    outcome = Result(False, "", "s", (), stopped="cancelled", usage=Usage(input=1200, output=30))
    blocks = final_blocks(
        presenter, events.TextDelta("half"), start("exec", command="sleep 9"), events.Done(outcome)
    )
    assert blocks == [
        ("answer", "half"),
        ("call", "Running sleep 9"),
        ("note", "Stopped."),
        ("note", "1,200 tokens in, 30 out"),
    ]


def test_subagent_is_live_until_it_ends() -> None:
    clock = Clock()
    presenter = TurnPresenter(clock)
    final_blocks(presenter, subagent_event("session_start"), subagent_event("session_start", "2"))
    assert live_blocks(presenter) == [("subagent", "look around"), ("subagent", "look around")]
    step = subagent_event("tool_start", name="exec", arguments={"path": "a\x1b[31m.txt"})
    final_blocks(presenter, step, subagent_event("done", "2"))
    clock.now += 65
    (block,) = presenter.live()
    assert block.tool == "explore (1)"
    assert block.text == "Using exec a\\u{1b}[31m.txt"
    assert block.elapsed == "1:05 min"
    final_blocks(presenter, subagent_event("error", message="broke"))
    assert live_blocks(presenter) == []


@pytest.mark.parametrize(
    ("elapsed_s", "text"), [(0.44, "0.4 s"), (12.3, "12 s"), (187, "3:07 min")]
)
def test_durations_are_short(elapsed_s: float, text: str) -> None:
    assert seconds(elapsed_s) == text


def test_growing_durations_have_no_tenths() -> None:
    assert whole_seconds(4.4) == "4 s"


def test_colours_of_programs_are_dropped() -> None:
    assert without_ansi("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x07") == "red link\\u{7}"


@pytest.mark.parametrize("path", ["notes ", " notes", "a  b", "a\n"])
def test_title_contains_the_path_exactly(path: str) -> None:
    title = call_title("read_file", {"path": path}, "read", "Reading {path}")
    assert [part.text for part in title if part.argument == "path"] == [path]


def test_title_without_visible_arguments_names_the_tool() -> None:
    title = call_title("read_file", {"path": " "}, "read", "Reading {path}")
    assert [part.text for part in title if part.argument == TOOL] == ["read_file"]
