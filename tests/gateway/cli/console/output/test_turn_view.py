"""Lines and wording that a turn leaves on the screen."""

import io

import pytest
from rich.text import Text

from agent import events
from agent.approvals import ApprovalRequest
from agent.text.visible import escape_invisible
from agent.turn.tool_catalog import started_event
from agent.types import Result, ToolCall
from gateway.cli.console.output.screen import Screen
from gateway.cli.console.output.turn_view import TurnView
from gateway.core.question_view import with_view
from gateway.core.records import Delivered
from gateway.presenter.text import without_ansi

REQUEST = ApprovalRequest("exec", {}, "It runs.", command="ls")
ASKED = with_view(events.ApprovalAsked("n", REQUEST, expires_s=300.0))


def rendered_turn(*happened: events.Event | Delivered) -> str:
    out = io.StringIO()
    view = TurnView(Screen(out))
    view.begin()
    for event in happened:
        view.take(event)
    view.end()
    return out.getvalue()


def delivery(text: str, *, maybe_duplicate: bool = False) -> Delivered:
    return Delivered(text, "final", "e", True, maybe_duplicate)


def test_streamed_answer_is_not_repeated_on_delivery() -> None:
    text = rendered_turn(
        events.TextDelta("one\n\n"),
        events.TextDelta("two <promise>COMPLETE</promise>"),
        events.Done(Result(True, "one\n\ntwo", "s", ())),
        delivery("one\n\ntwo"),
    )
    assert (text.count("one"), text.count("two")) == (1, 1)
    assert "promise" not in text


def test_unstreamed_answer_is_shown_completely() -> None:
    assert "earlier" in rendered_turn(delivery("earlier"))


def test_possible_repeat_is_marked() -> None:
    text = rendered_turn(delivery("again", maybe_duplicate=True))
    assert text.index("possible duplicate") < text.index("again")


def test_delivery_after_the_start_of_the_next_turn_is_recognized() -> None:
    start = events.SessionStart("s", "p", "m")
    text = rendered_turn(
        start, events.TextDelta("first"), start, events.TextDelta("second"), delivery("first")
    )
    assert text.count("first") == 1


def test_answer_streamed_by_an_earlier_view_is_not_repeated() -> None:
    out = io.StringIO()
    view = TurnView(Screen(out), unanswered="yes, it")
    view.begin()
    view.take(events.TextDelta(" is"))
    view.take(delivery("yes, it is"))
    assert (out.getvalue().count("yes"), view.unanswered) == (0, "")
    view.take(delivery("yes"))
    view.end()
    assert out.getvalue().count("yes") == 1


def test_text_discarded_by_a_retry_is_shown_again() -> None:
    text = rendered_turn(
        events.IterationStart(1, 5),
        events.TextDelta("half an ans"),
        events.Retry("connection reset", 1, 3, 0.5),
        events.TextDelta("answer"),
        delivery("answer"),
    )
    assert "half" not in text
    assert "connection reset" in text
    assert text.count("answer") == 1


def test_screen_without_a_footer_lists_the_choices() -> None:
    out = io.StringIO()
    TurnView(Screen(out)).ask(ASKED, bool)
    choices = "[y] Allow once [s] Allow exactly this for this session [a] Always allow exactly this"
    assert f"{choices} [n] Deny [f] Deny and say why (5:00 min left)" in " ".join(
        out.getvalue().split()
    )


def test_question_is_separated_from_preceding_text() -> None:
    out = io.StringIO()
    view = TurnView(Screen(out))
    view.take(events.TextDelta("I would run this:"))
    view.ask(ASKED, bool)
    assert "I would run this:\n\n? exec\n  ls\n" in out.getvalue()


def test_only_collapsed_output_is_expanded() -> None:
    out = io.StringIO()
    view = TurnView(Screen(out))
    view.take(events.ToolResulted("1", "exec", "short\n[exit code 0]", False, 0.1, kind="execute"))
    view.take(events.ThinkingEnd("a thought\nof two lines"))
    assert not view.unfold()
    view.take(events.ToolResulted("2", "exec", "\n".join("abcdefg"), False, 0.1, kind="execute"))
    view.take(events.ThinkingEnd("\n".join("abcdefghi")))
    assert view.unfold()
    assert "✻ a\n  b" in out.getvalue()
    assert view.unfold()
    assert not view.unfold()


def test_chinese_text_wraps_without_breaking_at_blanks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "31")
    text = "使用 kore agent 命令可以开始**一段对话**，然后（也许）。"
    lines = rendered_turn(events.TextDelta(f"{text}\n\n- {text}")).split("\n")
    assert lines[0] == "使用 kore agent 命令可以开始一"
    assert lines[1] == "段对话，然后（也许）。"
    out = io.StringIO()
    Screen(out).print(Text(text.replace("*", ""), "dim"))
    assert out.getvalue().split("\n")[:2] == lines[:2]
    assert lines[3:5] == [" • 使用 kore agent 命令可以开", "   始一段对话，然后（也许）。"]


def test_diff_is_shown_with_its_result() -> None:
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-old\n+new\n"
    text = rendered_turn(
        started_event(ToolCall("1", "edit_file", {"path": "a"}, "")),
        events.ToolResulted("1", "edit_file", "1 edit", False, 0.1, diff),
    )
    assert "● Editing a" in text
    assert "-old" in text
    assert "+new" in text


def test_long_outcome_is_indented_when_wrapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = rendered_turn(
        events.ToolResulted("1", "exec", "word " * 39 + "\n  second", True, 0.1, kind="execute")
    )
    head, *body = text.splitlines()
    assert head == "● Using exec"
    assert body[0].startswith("  └ word word")
    assert len(body) == 4
    assert all(line.startswith("    word") for line in body[1:3])
    assert body[3] == "      second"
    assert max(map(len, body)) < 80


def test_non_terminal_output_gets_no_control_codes() -> None:
    text = rendered_turn(
        events.ThinkingDelta("hm", 2),
        events.ThinkingEnd("hm"),
        events.TextDelta("# T\n\n```python\nx = 1\n```\n"),
        events.Error("unavailable", "bad \x1b]0;title\x07", "try"),
    )
    assert "\x1b" not in text
    assert "x = 1" in text


def test_links_show_their_address() -> None:
    assert "https://evil.example" in rendered_turn(delivery("[your bank](https://evil.example)"))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a\x1b[31mb", "a\\u{1b}[31mb"),
        ("a\u202eb", "a\\u{202e}b"),
        ("a\tb\r\nc\rd", "a\tb\nc\\u{d}d"),
        ("字 👩‍👩‍👧", "字 👩‍👩‍👧"),
    ],
)
def test_invisible_characters_are_escaped(text: str, plain: str) -> None:
    assert escape_invisible(text) == plain


def test_one_empty_line_precedes_a_code_block() -> None:
    text = rendered_turn(delivery("Window of x:\n```\n1 of 2\nfree\n```\nMore."))
    lines = [line.strip() for line in text.rstrip("\n").split("\n")]
    assert lines == ["Window of x:", "", "1 of 2", "free", "", "More."]


def test_line_breaks_of_an_answer_are_kept() -> None:
    assert rendered_turn(delivery("one\ntwo")).startswith("one\ntwo\n")


def test_only_the_new_part_of_a_delivery_is_shown() -> None:
    text = rendered_turn(
        events.TextDelta("what was said"),
        events.Error("unavailable", "the model is away", "try later"),
        Delivered(
            "what was said\n\nI could not answer: the model is away (unavailable)\n\nAnd more.",
            "final",
            "e",
            True,
        ),
    )
    assert text.count("what was said") == 1
    assert text.count("the model is away") == 1
    assert "And more." in text


def test_stop_is_shown_once() -> None:
    text = rendered_turn(
        events.TextDelta("half"),
        started_event(ToolCall("1", "exec", {"command": "sleep 9"}, "")),
        events.Done(Result(False, "half", "s", (), stopped="cancelled")),
        delivery("half\n\n⏹ Stopped."),
    )
    assert text.count("Stopped.") == 1
    assert "● Running sleep 9\n  └ stopped" in text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("Use the <Button> and <br/> here", "Use the <Button> and <br/> here"),
        ("<div>\nblock\n</div>", "<div>"),
        ("see ![a plot](http://a.example/p.png) there", "a plot (http://a.example/p.png) there"),
        ("| 名称说明文字很长很长很长 | " + "b" * 60 + " |\n|-|-|\n| x | y |", "很长"),
    ],
)
def test_answer_is_shown_completely(
    answer: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = rendered_turn(delivery(answer))
    assert words in text
    assert "…" not in text


def test_tail_shows_only_the_end_of_a_long_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal()
    view = TurnView(Screen(out))
    view.begin()
    view.take(events.TextDelta("\n".join(f"- item {n}" for n in range(200))))
    out.truncate(0)
    view.tick()
    tail = without_ansi(out.getvalue())
    assert "item 199" in tail
    assert "item 100" not in tail
    view.end()
    assert "item 100" in without_ansi(out.getvalue())


def test_long_table_keeps_its_head_in_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal()
    view = TurnView(Screen(out))
    view.begin()
    rows = "\n".join(f"| {n} | value |" for n in range(100))
    view.take(events.TextDelta(f"| number | word |\n|---|---|\n{rows}"))
    out.truncate(0)
    view.tick()
    tail = without_ansi(out.getvalue())
    assert "99" in tail
    assert "|" not in tail
    view.end()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
