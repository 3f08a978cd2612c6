"""The status line reports events, in as many parts as fit."""

import pytest

from agent import events
from agent.types import Result, Usage
from gateway.cli.console.output.status_line import StatusLine
from gateway.core.messages import MessageOptions
from tests.fakes.memory_service import MemoryService

DONE = events.Done(Result(True, "said", "s", ()))


def status(**options: str) -> StatusLine:
    return StatusLine(MessageOptions(**options), "vendor/model", "ask", lambda _: 10_000)


def test_initial_status_line_shows_model_and_mode() -> None:
    assert status().line(80) == "vendor/model · ask"
    assert status(model="quick", mode="plan").line(80) == "quick · plan"


def test_model_is_shown_by_its_most_specific_name() -> None:
    titles = {"default": "vendor/model"}
    shown = StatusLine(
        MessageOptions(), "default", "ask", lambda _: 10_000, lambda name: titles.get(name, name)
    )
    assert shown.line(80) == "vendor/model · ask"
    shown.use_options(MessageOptions(model="quick"))
    assert shown.line(80) == "quick · ask"


def test_window_share_is_the_share_of_the_last_call() -> None:
    shown = status()
    shown.take(events.SessionStart("s", "vendor", "model"))
    shown.take(events.UsageReport(Usage(4_000, 100, 0)))
    shown.take(events.UsageReport(Usage(8_900, 200, 0), session_cost_usd=0.5))
    assert shown.line(80) == "vendor/model · ask · ████░░░░ 50% of 10k (5.0k) · $0.50"
    # A question ended the turn's task; the turn starts again and adds to the earlier usage.
    shown.take(events.SessionStart("s", "vendor", "model"))
    shown.take(events.UsageReport(Usage(14_900, 300, 0)))
    assert "61% of 10k (6.1k)" in shown.line(80)
    shown.take(DONE)
    shown.take(events.SessionStart("s", "vendor", "model"))
    shown.take(events.UsageReport(Usage(900, 100, 0)))
    assert "10% of 10k" in shown.line(80)
    shown.take(events.Compacted(9_000, 700, 3, 2))
    assert "7% of 10k (700)" in shown.line(80)


@pytest.mark.parametrize(
    ("columns", "line"),
    [(40, "vendor/model · ask · 50% · $0.50"), (24, "vendor/model · ask"), (10, "ask")],
)
def test_narrow_terminal_omits_the_least_important_parts(columns: int, line: str) -> None:
    shown = status()
    shown.take(events.UsageReport(Usage(4_900, 100, 0), session_cost_usd=0.5))
    assert shown.line(columns) == line


async def test_status_line_shows_background_commands_and_choices() -> None:
    async with MemoryService() as service:
        await service.bind_session("cli:local:x", None)
        service.running = ["make", "serve"]
        shown = status()
        await shown.refresh(service, "cli:local:x")
        assert shown.line(80) == "vendor/model · ask · $0.25 · 2 in the background"


def test_goal_is_shown_with_its_turns_until_it_is_met() -> None:
    shown = status()
    shown.take(events.GoalChanged("active", "all tests pass", 2, 20))
    assert shown.line(80) == "vendor/model · ask · 🎯 2/20"
    shown.take(events.GoalChanged("paused", "all tests pass", 3, 20, "question"))
    assert shown.line(80) == "vendor/model · ask · 🎯 3/20 paused"
    shown.take(events.GoalChanged("met", "all tests pass", 4, 20))
    assert shown.line(80) == "vendor/model · ask"
