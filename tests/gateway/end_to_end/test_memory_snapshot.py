"""A session's prompt retains the memory from its start, so that the prompt cache stays valid."""

from itertools import pairwise
from typing import Any

from tests.fakes.model_script import ReplyScript, reply_with_call
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.gateway.end_to_end.summaries import is_summary


def system_prompt(gateway: GatewayProcess) -> str:
    return str(gateway.model.requests[-1].body["messages"][0]["content"])


async def test_remembered_line_leaves_earlier_requests_unchanged(
    alone: GatewayProcess,
) -> None:
    memory = alone.workspace / "memory" / "MEMORY.md"
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text("- 2026-01-01: lives in Lisbon\n")
    await alone.start()
    await alone.answers_to(OWNER, "hi")
    alone.model.script(reply_with_call("remember", text="likes tea"), "Noted.")
    await alone.answers_to(OWNER, "remember that I like tea")
    await alone.answers_to(OWNER, "and now?")
    await alone.stop()
    await alone.start()
    await alone.answers_to(OWNER, "still there?")
    assert "likes tea" in memory.read_text()
    assert "lives in Lisbon" in system_prompt(alone)
    raw = [request.raw for request in alone.model.requests]
    assert len(raw) == 5
    for before, after in pairwise(raw):
        assert after.startswith(before[: before.rindex(b"]")])

    await alone.answers_to(OWNER, "/new")
    await alone.answers_to(OWNER, "and in a new one?")
    assert "likes tea" in system_prompt(alone)


async def test_summary_refreshes_the_memory(alone: GatewayProcess) -> None:
    def mind(body: dict[str, Any]) -> ReplyScript:
        return ReplyScript(text="They sent words." if is_summary(body) else "Read.")

    alone.model.mind = mind
    memory = alone.workspace / "memory" / "MEMORY.md"
    await alone.start()
    for n in range(8):
        await alone.answers_to(OWNER, f"{n} " + "word " * 1000)
    memory.write_text("- 2026-01-01: likes tea\n")
    await alone.answers_to(OWNER, "before")
    assert "likes tea" not in system_prompt(alone)
    await alone.answers_to(OWNER, "/compact")
    await alone.answers_to(OWNER, "after")
    assert "likes tea" in system_prompt(alone)
