"""Detection of repeated calls with the same result."""

import json

from agent.turn.tool_executor import STOP_AT, WARN_AT, LoopGuard
from agent.types import ToolCall, ToolResult


class Model:
    """A simulated model; its calls of `exec` and `edit_file` may change files."""

    def __init__(self) -> None:
        self.guard = LoopGuard()

    def call(self, name: str, result: str, *, is_error: bool = False, **arguments: object) -> str:
        call = ToolCall("1", name, arguments, json.dumps(arguments))
        may_change = name in ("exec", "edit_file")
        return self.guard.check(call, ToolResult(result, is_error=is_error), may_change=may_change)


def test_same_call_is_warned_of_three_times_and_stopped_at_twelve() -> None:
    model = Model()
    verdicts = [model.call("exec", "no such file", command="ls x") for _ in range(STOP_AT)]
    warned = {n for n, verdict in enumerate(verdicts, 1) if verdict == "warn"}
    assert warned == set(WARN_AT)
    assert verdicts.index("stop") == STOP_AT - 1


def test_spill_file_name_does_not_affect_loop_detection() -> None:
    model = Model()
    long = (
        "head … (9 bytes left out; the text in /w/.kore/spill/20261120-1000{:02}-{:016x}.txt) tail"
    )
    verdicts = [model.call("exec", long.format(n, n), command="ls") for n in range(STOP_AT)]
    assert verdicts[-1] == "stop"


def test_differing_results_are_not_a_loop() -> None:
    model = Model()
    verdicts = [model.call("exec", f"line {n}", command="ls") for n in range(2 * STOP_AT)]
    assert set(verdicts) == {"fine"}


def test_edits_followed_by_the_same_check_are_not_a_loop() -> None:
    model = Model()
    verdicts = []
    for n in range(2 * STOP_AT):
        verdicts.append(model.call("edit_file", "Made the edit.", old_string=n))
        verdicts.append(model.call("exec", "12 passed", command="pytest -q"))
    assert set(verdicts) == {"fine"}


def test_failed_edit_does_not_count_as_progress() -> None:
    model = Model()
    verdicts = []
    for n in range(STOP_AT):
        model.call("edit_file", "not found", is_error=True, old_string=n)
        verdicts.append(model.call("exec", "1 failed", command="pytest -q"))
    assert verdicts[-1] == "stop"


def test_edits_that_undo_each_other_are_a_loop() -> None:
    model = Model()
    verdicts = []
    for _ in range(STOP_AT + 1):
        verdicts.append(model.call("edit_file", "Made the edit.", old_string="a"))
        verdicts.append(model.call("edit_file", "Made the edit.", old_string="b"))
    assert "stop" in verdicts


def test_unrelated_read_does_not_reset_the_guard() -> None:
    model = Model()
    verdicts = []
    for n in range(STOP_AT):
        model.call("read_file", f"text {n}", path=f"{n}.txt")
        verdicts.append(model.call("grep", "no match", pattern="x"))
    assert verdicts[-1] == "stop"


def test_polling_a_command_until_it_ends_is_not_a_loop() -> None:
    model = Model()
    verdicts = [model.call("process", f"{n // 2} %", id=1) for n in range(2 * STOP_AT)]
    assert "stop" not in verdicts
