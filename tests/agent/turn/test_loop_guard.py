"""A call that is made again and again with the same result."""

from agent.turn.loop_guard import STOP_AT, WARN_AT, LoopGuard
from agent.types import ToolCall, ToolResult


def judge_all(results: list[str]) -> list[str]:
    guard = LoopGuard()
    call = ToolCall("1", "exec", {"command": "ls"}, '{"command": "ls"}')
    return [guard.check(call, ToolResult(text)) for text in results]


def test_a_long_output_is_the_same_whatever_its_file_is_called() -> None:
    long = (
        "head … (9 bytes left out; whole text in /w/.kore/spill/20261120-10000{}-{:016x}.txt) tail"
    )
    verdicts = judge_all([long.format(n, n) for n in range(STOP_AT)])
    assert verdicts[WARN_AT - 1 :] == ["warn", "warn", "warn", "stop"]


def test_results_that_differ_are_fine() -> None:
    assert set(judge_all([f"line {n}" for n in range(2 * STOP_AT)])) == {"fine"}
