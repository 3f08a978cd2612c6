"""A long conversation with a real gateway: its summary, its cost, and a kill while it is told."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from agent.prompts import load_prompt
from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.gateway_process import GatewayProcess

SMALL = {"context": {"max_tokens": 12_000}}
# So short that several messages fit between the mark and the end of the window: who writes on while
# a summary begins must not come to wait for it.
LONG = "word " * 100
TOLD = "They sent the same words again and again."


def is_summary(body: Mapping[str, Any]) -> bool:
    """Whether it is the conversation with the request for a summary behind it, or a transcript."""
    is_behind = load_prompt("summarise_here") in str(body["messages"][-1]["content"])
    return is_behind or body["messages"][0]["content"] == load_prompt("summarise")


async def test_a_kill_while_a_summary_is_told_loses_nothing_and_the_next_one_is_kept(
    alone: GatewayProcess,
) -> None:
    told: list[ReplyScript] = [ReplyScript(text="never", latency_s=60.0)]

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        return told[0] if is_summary(body) else ReplyScript(text="Read.")

    def summaries() -> int:
        return sum(is_summary(request.body) for request in alone.model.requests)

    alone.configure(SMALL)
    alone.model.mind = mind
    await alone.start()
    count = 0
    while not summaries():
        count += 1
        # Whoever writes does not wait for the summary.
        assert (await alone.answers_to(7, f"{count} {LONG}")).count("Read.") == count
        assert count < 100
    await alone.kill()
    told[0] = ReplyScript(text=TOLD)
    await alone.start()
    # How the model counts is learned anew: the mark may lie a little higher now.
    while summaries() == 1:
        count += 1
        assert (await alone.answers_to(7, f"{count} {LONG}")).count("Read.") == count
        assert count < 100
    await alone.until(
        lambda: any("older messages were summarized" in text for text in alone.api.answers(7))
    )
    assert summaries() == 2
    for previous, asked in pairwise(alone.model.requests):
        if is_summary(asked.body):
            assert asked.raw.startswith(previous.raw[: previous.raw.rindex(b"]")]), "the cache hits"
    assert (await alone.answers_to(7, "go on"))[-1] == "Read."
    first = alone.model.requests[-1].body["messages"][1]
    assert TOLD in str(first["content"])
    assert "1 word word" in str(first["content"]), "the first request stays word for word"
    await alone.stop()
    await alone.start()
    assert (await alone.answers_to(7, "and now?"))[-1] == "Read."
    before, after = (asked.raw for asked in alone.model.requests[-2:])
    assert after.startswith(before[: before.rindex(b"]")]), "a restart changes no byte of the past"
