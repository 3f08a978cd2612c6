import pytest

from agent.events import Event, IterationStart, Retry, TextDelta, ToolResulted
from agent.turn.tool_catalog import started_event
from agent.types import ToolCall
from gateway.delivery.activity_status import ActivityStatus


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def doing(clock: Clock) -> ActivityStatus:
    return ActivityStatus(clock)


def start(name: str, n: int = 1, **arguments: object) -> Event:
    return started_event(ToolCall(str(n), name, arguments, ""))


def end(name: str, n: int = 1) -> Event:
    return ToolResulted(str(n), name, "", False, 0.0)


def test_status_is_thinking_until_text_arrives(
    doing: ActivityStatus,
) -> None:
    assert doing.line == "⏳ Thinking"
    doing.feed(TextDelta("Hello"))
    assert doing.line == ""
    doing.feed(IterationStart(2, 9))
    assert doing.line == "⏳ Thinking"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (start("read_file", path="src/x.py"), "⏳ Reading `src/x.py`"),
        (
            start("edit_file", path="a/" * 40 + "x.py"),
            "⏳ Editing `…" + ("a/" * 40)[-43:] + "x.py`",
        ),
        (start("exec", command="ls -l\nwc"), "⏳ Running `ls -l wc`"),
        (start("exec", command="uv run pytest -q"), "⏳ Running the tests: `uv run pytest -q`"),
        (start("exec", command="npm test"), "⏳ Running the tests: `npm test`"),
        (start("exec", command="echo `x`"), "⏳ Running `` echo `x` ``"),
        (start("web_fetch", url="https://e.example/secret?k=1"), "⏳ Reading `e.example`"),
        (start("task", description="review it"), "⏳ Waiting for a sub-agent: `review it`"),
        (start("mcp__git__log", repo="x"), "⏳ Using `mcp__git__log`"),
        (start("read_file"), "⏳ Using `read_file`"),
        (start("todo", items=[]), "⏳ Thinking"),
    ],
)
def test_call_is_described_in_words(doing: ActivityStatus, call: Event, line: str) -> None:
    doing.feed(call)
    assert doing.line == line


def test_parallel_calls_are_counted_until_the_last_ends(
    doing: ActivityStatus,
) -> None:
    doing.feed(start("read_file", 1, path="a"))
    doing.feed(start("read_file", 2, path="b"))
    assert doing.line == "⏳ Reading `a` (+1)"
    doing.feed(end("read_file", 1))
    assert doing.line == "⏳ Reading `b`"
    doing.feed(end("read_file", 2))
    assert doing.line == "⏳ Thinking"


def test_duration_is_shown_in_steps(doing: ActivityStatus, clock: Clock) -> None:
    doing.feed(start("exec", command="make"))
    seen = []
    for passed in (9, 10, 19, 20, 59, 60, 119, 125):
        clock.now = 100.0 + passed
        seen.append(doing.line.removeprefix("⏳ Running `make`"))
    assert seen == [
        "",
        " · 10 s",
        " · 10 s",
        " · 20 s",
        " · 50 s",
        " · 1 min",
        " · 1 min",
        " · 2 min",
    ]


def test_retry_is_shown(doing: ActivityStatus) -> None:
    doing.feed(Retry("cut", 1, 3, 0.1))
    assert doing.line == "⏳ Retrying (1 of 3)"


def test_suspended_turn_shows_its_reason(doing: ActivityStatus) -> None:
    doing.feed(start("exec", command="make"))
    doing.set_paused("Waiting for an answer")
    assert doing.line == "⏳ Waiting for an answer"
