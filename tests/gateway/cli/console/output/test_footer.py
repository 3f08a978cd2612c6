import io

from agent.approvals import ApprovalRequest
from agent.events import ApprovalAsked
from gateway.cli.console.output.footer import Footer
from gateway.cli.console.output.screen import Screen
from gateway.core.question_view import with_view
from gateway.presenter.text import without_ansi

REQUEST = ApprovalRequest("exec", {}, "Runs a command.")
ASKED = with_view(ApprovalAsked("n", REQUEST, expires_s=300))


def test_work_time_pauses_during_a_question() -> None:
    now = 0.0
    below = Footer(Screen(io.StringIO()), lambda: now)
    now = 100.0
    below.begin()
    now = 102.0
    below.ask(ASKED, lambda: True)
    now = 162.0
    assert below.worked_s == 2
    assert "4:00" in " ".join(below.lines(thinking=False))
    below.settle()
    now = 165.0
    assert below.worked_s == 5


def test_question_before_the_work_does_not_reduce_its_time() -> None:
    now = 0.0
    below = Footer(Screen(io.StringIO()), lambda: now)
    below.ask(ASKED, lambda: True)
    now = 10.0
    below.begin()
    assert below.worked_s == 0
    now = 20.0
    below.settle()
    now = 21.0
    assert below.worked_s == 1


def test_lines_of_the_choices_are_indented() -> None:
    screen = Screen(io.StringIO())
    screen.console.width = 50
    below = Footer(screen, lambda: 0.0)
    below.ask(ASKED, lambda: True)
    lines = [without_ansi(line) for line in below.lines(thinking=False)]
    assert len(lines) > 1
    assert all(line.startswith("  ") and len(line) < 50 for line in lines if line)
