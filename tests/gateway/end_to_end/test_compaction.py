"""Compaction of a long conversation: its summary, its cost, and a kill during the summary."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.gateway_process import GatewayProcess
from tests.gateway.end_to_end.summaries import is_summary

SMALL = {"context": {"max_tokens": 12_000}}
# Short enough for several messages to fit between the threshold and the end of the window, so that
# people who write while a summary is made do not have to wait for it.
LONG = "word " * 100
TOLD = "They sent the same words again and again."


async def test_kill_during_a_summary_loses_nothing(
    alone: GatewayProcess,
) -> None:
    scripts: list[ReplyScript] = [ReplyScript(text="never", latency_s=60.0)]

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        return scripts[0] if is_summary(body) else ReplyScript(text="Read.")

    def summaries() -> int:
        return sum(is_summary(request.body) for request in alone.model.requests)

    alone.configure(SMALL)
    alone.model.mind = mind
    await alone.start()
    count = 0
    while not summaries():
        count += 1
        # A person who writes does not wait for the summary.
        assert (await alone.answers_to(7, f"{count} {LONG}")).count("Read.") == count
        assert count < 100
    await alone.kill()
    scripts[0] = ReplyScript(text=TOLD)
    await alone.start()
    # Kore learns the model's token counts again, so the threshold may now be slightly higher.
    while summaries() == 1:
        count += 1
        assert (await alone.answers_to(7, f"{count} {LONG}")).count("Read.") == count
        assert count < 100
    await alone.until(
        lambda: any("older messages were summarized" in text for text in alone.api.answers(7))
    )
    assert summaries() == 2
    for previous, result in pairwise(alone.model.requests):
        if is_summary(result.body):
            assert result.raw.startswith(previous.raw[: previous.raw.rindex(b"]")]), (
                "the cache hits"
            )
    assert (await alone.answers_to(7, "go on"))[-1] == "Read."
    first = alone.model.requests[-1].body["messages"][1]
    assert TOLD in str(first["content"])
    assert "1 word word" in str(first["content"]), "the first request stays word for word"
    await alone.stop()
    await alone.start()
    assert (await alone.answers_to(7, "and now?"))[-1] == "Read."
    before, after = (result.raw for result in alone.model.requests[-2:])
    assert after.startswith(before[: before.rindex(b"]")]), "a restart changes no byte of the past"


async def test_messages_of_people_survive_compactions_and_a_kill(
    alone: GatewayProcess,
) -> None:
    results: list[bool] = [False]

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        if is_summary(body):
            return ReplyScript(text="They talked.", latency_s=60.0 if results[0] else 0.0)
        return ReplyScript(text="Read. " * 100)

    def summaries() -> int:
        return sum(is_summary(request.body) for request in alone.model.requests)

    def lost(count: int) -> list[int]:
        """Return the numbers of conditions that are missing from the newest request of a turn."""
        received_request = next(
            request for request in reversed(alone.model.requests) if not is_summary(request.body)
        )
        return [
            n for n in range(count) if f"condition {n} is kept" not in str(received_request.body)
        ]

    alone.configure(SMALL)
    alone.model.mind = mind
    await alone.start()
    count = 0
    while summaries() < 2:
        await alone.answers_to(7, f"condition {count} is kept")
        await alone.idle()
        count += 1
        assert lost(count) == []
        assert count < 200
    # A kill during a requested compaction leaves the old state in force.
    results[0] = True
    before = summaries()
    await alone.api.user_says(7, "/compact")
    await alone.until(lambda: summaries() > before)
    await alone.kill()
    results[0] = False
    await alone.start()
    await alone.idle()
    await alone.answers_to(7, "still there?")
    assert lost(count) == []
    before = summaries()
    await alone.answers_to(7, "/compact")
    await alone.until(lambda: summaries() > before)
    await alone.idle()
    assert (await alone.answers_to(7, "go on"))[-1].startswith("Read.")
    assert lost(count) == []
