"""The turn loop: requests to the model and events for consumers."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent import events
from agent.agent import Agent
from agent.context.history_validation import is_valid
from agent.errors import BadReply, ContextTooLong
from agent.prompts import load_prompt
from agent.providers.base import ModelRequest
from agent.providers.token_estimate import estimate
from agent.run.history import MemoryHistory
from agent.settings import AgentSettings
from agent.tools.base import CallContext
from agent.types import Message, Text, Thinking, ToolCall, ToolResult, Usage, assistant, user
from tests.agent.props import Handmade, answers, call, calls, results, run_turn, scripted, task
from tests.agent.turn.speaker import Speaker


class Replies(Speaker):
    """A provider that gives one reply after another."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[events.ModelEvent]:
        first, *self._events = self._events
        yield first


def reply(text: str, *planned: ToolCall, usage: Usage | None = None) -> events.Reply:
    return events.Reply(assistant(text, planned), usage, "stop")


async def test_turn_continues_after_a_reply_with_calls(tmp_path: Path) -> None:
    agent, model = scripted(
        [calls(call("note"), text="First."), "Then."], tmp_path, answers("note")
    )
    seen, result = await run_turn(agent, task(agent))
    states = [event.state for event in seen if isinstance(event, events.State)]
    assert states == [
        "planning", "executing", "observing", "reflecting", "planning", "reflecting", "done",
    ]  # fmt: skip
    assert [e.n for e in seen if isinstance(e, events.IterationStart)] == [1, 2]
    assert len(model.requests) == 2
    assert result.text == "First.\n\nThen."


async def test_every_request_extends_the_previous_one(tmp_path: Path) -> None:
    replies = [calls(call("note", f"c{n}", n=n)) for n in range(4)]
    agent, model = scripted([*replies, "done"], tmp_path, answers("note"))
    await run_turn(agent, task(agent))
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
        assert (after.system, after.tools, after.model) == (
            before.system,
            before.tools,
            before.model,
        )


async def test_text_and_calls_of_the_model_are_stored_unchanged(tmp_path: Path) -> None:
    message = Message("assistant", (Thinking("hm", "sig"), Text("Look:")), (call("note"),))
    agent, model = scripted([message, "done"], tmp_path, answers("note"))
    _, result = await run_turn(agent, task(agent))
    assert result.messages[0] is message
    assert model.requests[1].messages[1] is message


async def test_usage_adds_up_over_the_turn(tmp_path: Path) -> None:
    agent = Agent(Speaker(reply("hi", usage=Usage(10, 2, 5))), workspace=tmp_path)
    first, outcome = await run_turn(agent, task(agent))
    assert outcome.usage == Usage(10, 2, 5)
    assert events.UsageReport(Usage(10, 2, 5)) in first
    agent, _ = scripted([calls(call("note")), "x"], tmp_path, answers("note"))
    seen, result = await run_turn(agent, task(agent))
    reports = [event.usage for event in seen if isinstance(event, events.UsageReport)]
    assert len(reports) == 2
    assert reports[1] == result.usage
    assert reports[1].input > reports[0].input


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("length", "The answer reached the model's length limit and was cut off."),
        (
            events.REPEATING,
            "The model repeated itself without end, so its answer was cut off.",
        ),
    ],
)
async def test_truncated_reply_is_reported(reason: str, text: str, tmp_path: Path) -> None:
    cut = events.Reply(assistant("and then", ()), None, reason)
    agent = Agent(Speaker(cut), workspace=tmp_path)
    seen, result = await run_turn(agent, task(agent))
    assert events.Notice("warning", text, text) in seen
    assert result.text == "and then"


async def test_truncated_call_is_not_run_and_reported(tmp_path: Path) -> None:
    ran: list[str] = []

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        ran.append(str(args))
        return ToolResult("noted")

    half = ToolCall("c2", "note", None, '{"text": "It beg')
    cut = events.Reply(assistant("", (call("note", text="whole"), half)), None, "length")
    agent = Agent(Replies(cut, reply("done")), workspace=tmp_path, tools=[Handmade("note", body)])
    _, result = await run_turn(agent, task(agent))
    assert ran == ["{'text': 'whole'}"]
    assert results(result.messages) == ["noted", load_prompt("call_cut")]


async def test_empty_reply_is_requested_again(tmp_path: Path) -> None:
    agent, model = scripted(["", "done"], tmp_path)
    seen, result = await run_turn(agent, task(agent))
    assert result.text == "done"
    assert [event.reason for event in seen if isinstance(event, events.Retry)] == [
        "the model returned an empty reply"
    ]
    first, second = model.requests
    assert first.messages == second.messages


async def test_silent_model_ends_its_turn(tmp_path: Path) -> None:
    agent, model = scripted(["", "", "never"], tmp_path)
    _, result = await run_turn(agent, task(agent))
    assert (result.success, len(model.requests)) == (False, 2)


async def test_stream_without_a_reply_is_an_error(tmp_path: Path) -> None:
    agent = Agent(Speaker(events.TextDelta("half a")), workspace=tmp_path)
    _, result = await run_turn(agent, task(agent))
    assert (result.stopped, result.error_code) == ("error", BadReply.code)
    assert [message.text for message in result.messages] == ["half a"]


async def test_stream_is_closed_after_the_reply(tmp_path: Path) -> None:
    model = Speaker(reply("done"), events.TextDelta("more"))
    agent = Agent(model, workspace=tmp_path)
    seen, _ = await run_turn(agent, task(agent))
    assert events.TextDelta("more") not in seen
    assert model.closed_streams == 1


async def test_thinking_is_shown_but_not_part_of_the_answer(tmp_path: Path) -> None:
    thinking = [events.ThinkingDelta("hm", 2), events.ThinkingEnd("hm")]
    model = Speaker(*thinking, events.TextDelta("yes"), reply("yes"))
    seen, result = await run_turn(agent := Agent(model, workspace=tmp_path), task(agent))
    assert [event for event in seen if event.type.startswith("thinking")] == thinking
    assert result.text == "yes"


async def test_broken_history_is_repaired_before_it_is_sent(tmp_path: Path) -> None:
    broken = [user("a"), calls(call("note", "c1")), user("b")]
    agent, model = scripted(["fine"], tmp_path)
    await run_turn(agent, task(agent, broken))
    (request,) = model.requests
    assert is_valid(request.messages)
    assert results(request.messages) == [load_prompt("interrupted")]


async def test_trimming_of_a_full_window_is_reported_once(
    tmp_path: Path,
) -> None:
    history = MemoryHistory()
    old = [message for n in range(300) for message in (user(f"{n} " * 900), assistant("b" * 900))]
    await history.append("s", old)
    replies = [calls(call("note")), "done"]
    agent, model = scripted(replies, tmp_path, answers("note"), history=history)
    seen = [event async for event in agent.stream("now", session="s")]
    (compacted,) = (event for event in seen if isinstance(event, events.Compacted))
    first, second = model.requests
    assert compacted.kept == len(first.messages)
    assert compacted.dropped == len(old) + 1 - len(first.messages)
    assert compacted.after < compacted.estimated_tokens_before
    assert second.messages[: len(first.messages)] == first.messages


@pytest.mark.parametrize("real_window", [40_000, 8_000, 3_000])
async def test_request_shrinks_to_the_real_window(tmp_path: Path, real_window: int) -> None:
    def answer(request: ModelRequest) -> str | Exception:
        if sum(map(estimate, request.messages)) > real_window:
            return ContextTooLong("too long")
        return "fits"

    old = [message for n in range(100) for message in (user(f"{n} " * 900), assistant("b" * 900))]
    agent, model = scripted([answer] * 9, tmp_path)
    _, result = await run_turn(agent, task(agent, [*old, user("now")]))
    assert result.text == "fits"
    sizes = [sum(map(estimate, request.messages)) for request in model.requests]
    assert sizes == sorted(set(sizes), reverse=True), "the same request is not sent twice"


async def test_model_that_rejects_everything_as_too_long_is_called_a_few_times(
    tmp_path: Path,
) -> None:
    agent, model = scripted([ContextTooLong("too long")] * 99, tmp_path)
    _, result = await run_turn(agent, task(agent, [user("long " * 200_000)]))
    assert result.error_code == "context-too-long"
    assert 1 < len(model.requests) <= 6


async def test_model_request_uses_the_settings(tmp_path: Path) -> None:
    settings = AgentSettings(temperature=0.0, max_tokens=77)
    agent, model = scripted(["hi"], tmp_path, answers("mine"), settings=settings)
    await run_turn(agent, task(agent))
    (request,) = model.requests
    assert (request.temperature, request.max_tokens) == (0.0, 77)
    names = [spec.name for spec in request.tools]
    assert names[-1] == "mine"
    assert {"read_file", "exec", "remember"} < set(names)


@pytest.mark.parametrize("limit", [1, 2])
async def test_limit_of_a_turn_precedes_that_of_the_agent(tmp_path: Path, limit: int) -> None:
    replies = [calls(call("note", n=n)) for n in range(3)]
    agent, model = scripted(replies, tmp_path, answers("note"))
    _, result = await run_turn(agent, task(agent, max_iterations=limit))
    assert result.stopped == "max_iterations"
    assert len(model.requests) == limit
