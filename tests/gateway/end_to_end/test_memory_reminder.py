"""Before a conversation is summarized, the model is asked once to save important facts."""

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from agent.prompts import load_prompt
from tests.fakes.model_script import ReplyScript, reply_with_call
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.gateway.end_to_end.summaries import is_summary

ASKED = load_prompt("remember_now").strip()
LONG = "word " * 100


def asked_count(body: Mapping[str, Any]) -> int:
    return json.dumps(body["messages"], ensure_ascii=False).count(ASKED)


def mind(body: Mapping[str, Any]) -> ReplyScript:
    """Remember a fact when asked to."""
    if is_summary(body):
        return ReplyScript(text="They sent words.")
    last = body["messages"][-1]
    if last["role"] == "user" and ASKED in str(last["content"]):
        return reply_with_call("remember", text="sends words all day")
    return ReplyScript(text="Read.")


async def test_memory_is_written_before_the_summary(alone: GatewayProcess) -> None:
    alone.configure({"context": {"max_tokens": 12_000}})
    alone.model.mind = mind
    memory = alone.workspace / "memory" / "MEMORY.md"
    requests = alone.model.requests
    async with alone:
        count = 0
        while not any(is_summary(request.body) for request in requests):
            count += 1
            assert "Read." in await alone.answers_to(OWNER, f"{count} {LONG}")
            assert count < 100
        before = requests[: _first_summary(requests)]
        assert "sends words all day" in memory.read_text()
        # Asked once, in a message, so that earlier messages stay unchanged.
        counts = [asked_count(request.body) for request in before]
        assert counts == sorted(counts)
        assert (counts[0], counts[-1]) == (0, 1)
        for result, other in pairwise(request.raw for request in before):
            assert other.startswith(result[: result.rindex(b"]")])


def _first_summary(requests: list[Any]) -> int:
    return next(n for n, request in enumerate(requests) if is_summary(request.body))


async def test_plan_mode_has_no_reminder(alone: GatewayProcess) -> None:
    alone.configure({"context": {"max_tokens": 12_000}})
    alone.model.mind = mind
    async with alone:
        await alone.answers_to(OWNER, "hi")
        await alone.answers_to(OWNER, "/mode plan")
        count = 0
        while not any(is_summary(request.body) for request in alone.model.requests):
            count += 1
            await alone.answers_to(OWNER, f"{count} {LONG}")
            assert count < 100
        assert not any(asked_count(request.body) for request in alone.model.requests)
