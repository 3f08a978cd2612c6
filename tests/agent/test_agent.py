"""Whole turns, from a prompt to a result, with every early end."""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent import events
from agent.agent import Agent
from agent.approvals import Answer, ApprovalRequest
from agent.context.history_validation import is_valid
from agent.errors import (
    ConfigError,
    ContextTooLong,
    ProviderError,
    RateLimited,
    Rejected,
    Unavailable,
)
from agent.prompts import load_prompt, render_prompt
from agent.providers.http.transport import Endpoint
from agent.providers.model_settings import ModelSettings
from agent.providers.openai.provider import OpenAICompatibleProvider
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.providers.retry import RetryingProvider
from agent.providers.scripted import ScriptedProvider
from agent.providers.vendors import VENDORS
from agent.run.history import JsonlHistory, MemoryHistory
from agent.security.policy.base import MODES, PermissionMode
from agent.security.policy.engine import DefaultPolicy
from agent.security.taint.taint import UNTRUSTED
from agent.settings import AgentSettings
from agent.tools.base import CallContext, EffectPlan
from agent.tools.runner import Permissions
from agent.turn.event_stream import MAX_EVENTS
from agent.turn.journal import CancelToken
from agent.types import Context, Image, Message, Taint, Text, ToolCall, ToolResult, assistant, user
from tests.agent.props import (
    Handmade,
    Hanging,
    answers,
    call,
    calls,
    expect_no_task_left,
    results,
    run_turn,
    scripted,
    task,
)
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Break, Call, ReplyScript


def socket_agent(server: ModelServer, workspace: Path, **options: Any) -> Agent:
    """Return an agent that talks to the fake server over a socket."""
    known = [ModelConfig("fake", "openai/fake", api_base=server.base_url, api_key="k")]
    return Agent(ModelPool("fake", known), workspace=workspace, **options)


async def test_turn_streams_its_events_and_ends_with_done(tmp_path: Path) -> None:
    agent, model = scripted(["hello you"], tmp_path)
    async with aclosing(agent.stream("hi")) as stream:
        seen = [event async for event in stream]
    assert [event.type for event in seen] == [
        "session_created", "session_start", "iteration_start", "state", "text_delta", "text_delta",
        "usage", "stream_end", "state", "state", "done",
    ]  # fmt: skip
    done = seen[-1]
    assert isinstance(done, events.Done)
    assert (done.result.success, done.result.text) == (True, "hello you")
    assert done.result.usage == seen[6].usage
    assert model.requests[0].messages[0].text == "hi"


async def test_conversation_is_created_once(tmp_path: Path) -> None:
    agent, _ = scripted(["one", "two"], tmp_path)
    created = []
    for said in ("a", "b"):
        async with aclosing(agent.stream(said, session="s")) as stream:
            created += [e async for e in stream if isinstance(e, events.SessionCreated)]
    assert created == [events.SessionCreated("s")]


async def test_prompt_is_stored_before_the_first_event(tmp_path: Path) -> None:
    history = MemoryHistory()
    agent, _ = scripted(["one"], tmp_path, history=history)
    async with aclosing(agent.stream("a", session="s")) as stream:
        assert (await anext(stream)).type == "session_created"
    assert [message.text for message in await history.load("s")] == ["a"]


async def test_run_returns_the_result_and_stores_the_conversation(tmp_path: Path) -> None:
    history = MemoryHistory()
    agent, model = scripted(["one", "two"], tmp_path, history=history)
    first = await agent.run("a", session="s")
    assert (first.text, first.session_id, first.stopped) == ("one", "s", None)
    await agent.run("b", session="s")
    assert [message.text for message in model.requests[1].messages] == ["a", "one", "b"]
    assert [message.text for message in await history.load("s")] == ["a", "one", "b", "two"]
    # A request is never modified after it was sent.
    assert [message.text for message in model.requests[0].messages] == ["a"]


async def test_new_session_does_not_know_the_old_one(tmp_path: Path) -> None:
    agent, model = scripted(["one", "two"], tmp_path)
    first, second = await agent.run("a"), await agent.run("b")
    assert first.session_id != second.session_id
    assert len(model.requests[1].messages) == 1


async def test_tools_run_over_the_wire_and_requests_extend_each_other(
    tmp_path: Path, model_server: ModelServer
) -> None:
    (tmp_path / "a.txt").write_text("treasure")
    model_server.script(
        ReplyScript(text="Let me look.", tool_calls=(Call("read_file", {"path": "a.txt"}),)),
        "Found it.",
        "You are welcome.",
    )
    agent = socket_agent(model_server, tmp_path)
    result = await agent.run("look", session="s")
    await agent.run("thanks", session="s")
    await agent.aclose()
    assert result.text == "Let me look.\n\nFound it."
    first, second, third = (asked.raw for asked in model_server.requests)
    assert b"treasure" in second
    assert second.startswith(first.removesuffix(b"]}"))
    assert third.startswith(second.removesuffix(b"]}"))


@pytest.mark.parametrize("name", ["nobody", "nobody/nothing"])
async def test_unusable_model_is_an_error_instead_of_a_crash(tmp_path: Path, name: str) -> None:
    agent = Agent(name, workspace=tmp_path)
    with pytest.raises(ConfigError, match="unknown"):
        await agent.run("hi")


async def test_closing_the_iterator_stores_the_streamed_text(
    tmp_path: Path, model_server: ModelServer
) -> None:
    model_server.script(ReplyScript(text="one two three", breaks=Break("hang", after=2)))
    history = MemoryHistory()
    agent = socket_agent(model_server, tmp_path, history=history)
    async with aclosing(agent.stream("go", session="s")) as stream:
        async for event in stream:
            if isinstance(event, events.TextDelta):
                text = event.text
                break
    await model_server.wait_for(lambda: model_server.abandoned == 1)
    await agent.aclose()
    messages = await history.load("s")
    assert [message.role for message in messages] == ["user", "assistant"]
    assert messages[1].text.startswith(text)
    assert is_valid(messages)


async def test_closing_the_iterator_stops_the_running_tool(tmp_path: Path) -> None:
    hanging, history = Hanging(), MemoryHistory()
    replies = [calls(call("quick", "c1"), call("hang", "c2"), call("quick", "c3"), text="Wait.")]
    quick = answers("quick", "it is noon", "idempotent")
    agent, _ = scripted(replies, tmp_path, hanging, quick, history=history)
    async with expect_no_task_left(), aclosing(agent.stream("go", session="s")) as stream:
        async for event in stream:
            if isinstance(event, events.ToolStart) and event.name == "hang":
                await hanging.started.wait()
                break
    assert hanging.stopped
    messages = await history.load("s")
    assert is_valid(messages)
    interrupted = load_prompt("interrupted")
    assert results(messages) == ["it is noon", interrupted, interrupted]


async def test_cancelling_the_task_stops_parallel_tools(tmp_path: Path) -> None:
    first, second, history = Hanging("one"), Hanging("two"), MemoryHistory()
    replies = [calls(call("one", "c1"), call("two", "c2"))]
    agent, _ = scripted(replies, tmp_path, first, second, history=history)
    async with expect_no_task_left():
        running = asyncio.create_task(agent.run("go", session="s"))
        await first.started.wait()
        await second.started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert first.stopped
    assert second.stopped
    assert is_valid(await history.load("s"))
    assert len(await history.load("s")) == 4


async def test_session_continues_after_a_cancellation(tmp_path: Path) -> None:
    hanging = Hanging()
    agent, model = scripted([calls(call("hang")), "here again"], tmp_path, hanging)
    running = asyncio.create_task(agent.run("go", session="s"))
    await hanging.started.wait()
    running.cancel()
    await asyncio.wait({running})
    assert (await agent.run("again", session="s")).text == "here again"
    assert is_valid(model.requests[1].messages)


async def test_stop_ends_a_running_turn_with_a_result(tmp_path: Path) -> None:
    hanging, stop = Hanging(), CancelToken()
    agent, _ = scripted([calls(call("hang"), text="Working.")], tmp_path, hanging)
    async with expect_no_task_left(), asyncio.TaskGroup() as group:
        turn = group.create_task(run_turn(agent, task(agent, stop=stop)))
        await hanging.started.wait()
        stop.request()
        stop.request()
    _, result = turn.result()
    assert (result.stopped, result.success, result.text) == ("cancelled", False, "Working.")
    assert hanging.stopped
    assert is_valid([user("go"), *result.messages])


async def test_stop_before_the_start_calls_no_model(tmp_path: Path) -> None:
    stop = CancelToken()
    stop.request()
    agent, model = scripted(["never said"], tmp_path)
    seen, result = await run_turn(agent, task(agent, stop=stop))
    assert (result.stopped, result.text, result.messages) == ("cancelled", "", ())
    assert [event.type for event in seen] == ["done"]
    assert model.requests == []


async def test_stop_before_a_resumed_turn_starts_answers_its_open_calls(tmp_path: Path) -> None:
    stop = CancelToken()
    stop.request()
    agent, _ = scripted([], tmp_path)
    messages = [user("go"), calls(call("one", "c1"), call("two", "c2"))]
    known = {"c1": ToolResult("known")}
    _, result = await run_turn(agent, task(agent, messages, known=known, stop=stop))
    assert results(result.messages) == ["known", load_prompt("interrupted")]
    assert is_valid([*messages, *result.messages])


async def test_stop_without_a_reader_still_gives_a_result(tmp_path: Path) -> None:
    stop = CancelToken()
    agent, _ = scripted(["word " * MAX_EVENTS * 2], tmp_path)
    async with aclosing(agent.turn(task(agent, stop=stop))) as stream:
        await anext(stream)
        # The writer fills the queue and blocks.
        for _ in range(3):
            await asyncio.sleep(0)
        stop.request()
        seen = [event async for event in stream]
    assert isinstance(seen[-1], events.Done)
    assert seen[-1].result.stopped == "cancelled"
    assert seen[-1].result.messages[0].text.startswith("word word")


async def test_stop_after_the_end_changes_nothing(tmp_path: Path) -> None:
    stop = CancelToken()
    agent, _ = scripted(["done"], tmp_path)
    async with aclosing(agent.turn(task(agent, stop=stop))) as stream:
        async for event in stream:
            if isinstance(event, events.State) and event.state == "done":
                await asyncio.sleep(0)
                stop.request()
    assert isinstance(event, events.Done)
    assert event.result.stopped is None
    assert event.result.text == "done"


async def test_stop_requested_by_a_tool_ends_the_turn(tmp_path: Path) -> None:
    stop = CancelToken()

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        stop.request()
        return ToolResult("asked")

    agent, _ = scripted([calls(call("stopper")), "never"], tmp_path, Handmade("stopper", body))
    _, result = await run_turn(agent, task(agent, stop=stop))
    assert result.stopped == "cancelled"
    assert is_valid([user("go"), *result.messages])


async def test_max_iterations_end_the_turn_with_a_message(tmp_path: Path) -> None:
    replies = [calls(call("note", f"c{n}", n=n)) for n in range(5)]
    history = MemoryHistory()
    settings = AgentSettings(max_iterations=3)
    agent, model = scripted(replies, tmp_path, answers("note"), history=history, settings=settings)
    result = await agent.run("go", session="s")
    assert (result.stopped, result.success) == ("max_iterations", False)
    assert "3 steps" in result.text
    assert len(model.requests) == 3
    messages = await history.load("s")
    assert is_valid(messages)
    assert messages[-1] == assistant(result.text)


async def test_repeating_model_is_warned_three_times_and_stopped_at_twelve(tmp_path: Path) -> None:
    """Other reads in between do not reset the count."""
    replies = []
    for n in range(12):
        replies += [calls(call("other", f"o{n}", n=n)), calls(call("same", f"s{n}", x=1))]
    agent, model = scripted(replies, tmp_path, answers("same"), answers("other"))
    result = await agent.run("go")
    assert result.stopped == "loop"
    assert "same" in result.text
    assert len(model.requests) == 24
    warned = [load_prompt("repeated") in text for text in results(result.messages)[1::2]]
    assert [n for n, is_warned in enumerate(warned, 1) if is_warned] == [3, 5, 8, 12]
    assert not any(load_prompt("repeated") in text for text in results(result.messages)[::2])
    assert is_valid([user("go"), *result.messages])


async def test_loop_among_parallel_calls_stops_with_a_result_for_each(tmp_path: Path) -> None:
    reply = calls(*(call("same", f"s{n}") for n in range(13)))
    agent, _ = scripted([reply], tmp_path, answers("same"))
    result = await agent.run("go")
    assert result.stopped == "loop"
    assert is_valid([user("go"), *result.messages])


@pytest.mark.parametrize("error", [Rejected("bad key", hint="set a key"), Unavailable("down")])
async def test_provider_error_ends_the_stream_with_error_and_done(
    tmp_path: Path, error: ProviderError
) -> None:
    history = MemoryHistory()
    agent, _ = scripted([error, error], tmp_path, history=history)
    async with aclosing(agent.stream("hi", session="s")) as stream:
        seen = [event async for event in stream]
    assert [event.type for event in seen[-2:]] == ["error", "done"]
    assert seen[-2].message == str(error)
    assert seen[-1].result.stopped == "error"
    assert seen[-1].result.error_code == error.code
    with pytest.raises(type(error), match=str(error)) as raised:
        await agent.run("hi", session="s")
    assert raised.value.hint == error.hint
    assert is_valid(await history.load("s"))


async def test_error_after_tools_keeps_their_results(tmp_path: Path) -> None:
    history = MemoryHistory()
    replies = [calls(call("note")), RateLimited("slow down")]
    agent, _ = scripted(replies, tmp_path, answers("note", "42"), history=history)
    with pytest.raises(RateLimited):
        await agent.run("go", session="s")
    messages = await history.load("s")
    assert is_valid(messages)
    assert results(messages) == ["42"]


async def test_too_long_conversation_is_shortened_until_it_fits(tmp_path: Path) -> None:
    history = MemoryHistory()
    old = [message for n in range(200) for message in (user(f"q{n} " * 200), assistant("a" * 800))]
    await history.append("s", old)
    replies = [ContextTooLong("no"), ContextTooLong("no"), "made it"]
    agent, model = scripted(replies, tmp_path, history=history)
    async with aclosing(agent.stream("now", session="s")) as stream:
        seen = [event async for event in stream]
    assert seen[-1].result.text == "made it"
    assert any(isinstance(event, events.Compacted) for event in seen)
    lengths = [len(request.messages) for request in model.requests]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < lengths[0]
    assert model.requests[-1].messages[-1].text == "now"


def _unexplained() -> Rejected:
    refusal = Rejected("输入内容过长")
    refusal.status = 400
    return refusal


async def test_long_conversation_is_shortened_after_an_unknown_rejection(
    tmp_path: Path,
) -> None:
    history = MemoryHistory()
    old = [message for n in range(200) for message in (user(f"q{n} " * 200), assistant("a" * 800))]
    await history.append("s", old)
    agent, model = scripted([_unexplained(), "made it"], tmp_path, history=history)
    assert (await agent.run("now", session="s")).text == "made it"
    first, second = (len(request.messages) for request in model.requests)
    assert second < first * 0.6


async def test_rejection_for_another_cause_is_raised(tmp_path: Path) -> None:
    history = MemoryHistory()
    old = [message for n in range(200) for message in (user(f"q{n} " * 200), assistant("a" * 800))]
    await history.append("s", old)
    agent, model = scripted([_unexplained() for _ in range(9)], tmp_path, history=history)
    with pytest.raises(Rejected):
        await agent.run("now", session="s")
    assert len(model.requests) <= 3
    # The rejection of a short conversation is not taken for a full context window.
    agent, model = scripted([_unexplained() for _ in range(9)], tmp_path)
    with pytest.raises(Rejected):
        await agent.run("hi")
    assert len(model.requests) == 1


async def test_turn_ends_if_no_shortening_suffices(tmp_path: Path) -> None:
    agent, model = scripted([ContextTooLong("no")] * 9, tmp_path)
    with pytest.raises(ContextTooLong):
        await agent.run("hi")
    assert len(model.requests) == 1


async def test_retry_discards_the_text_of_the_broken_stream(
    tmp_path: Path, model_server: ModelServer
) -> None:
    broken = ReplyScript(text="wrong wrong wrong", breaks=Break("eof", after=2))
    model_server.script(broken, "right")

    async def at_once(seconds: float) -> None:
        return None

    provider = OpenAICompatibleProvider(Endpoint("fake", model_server.base_url, "k"))
    agent = Agent(RetryingProvider(provider, sleep=at_once), workspace=tmp_path)
    async with aclosing(agent.stream("hi")) as stream:
        seen = [event async for event in stream]
    await agent.aclose()
    assert any(isinstance(e, events.TextDelta) and "wrong" in e.text for e in seen)
    assert any(isinstance(event, events.Retry) for event in seen)
    assert seen[-1].result.text == "right"
    assert [message.text for message in seen[-1].result.messages] == ["right"]


async def test_empty_reply_is_reported(tmp_path: Path) -> None:
    agent, _ = scripted([assistant(""), assistant("")], tmp_path)
    result = await agent.run("hi")
    assert (result.success, result.text) == (
        False,
        "The model returned no answer. Try again, or choose another model.",
    )


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (ToolCall("c1", "raed_file", {"path": "a"}, "{}"), "did you mean read_file"),
        (ToolCall("c1", "nonsense", {}, "{}"), "There is no tool 'nonsense'"),
        (ToolCall("c1", "read_file", None, '{"path": "a'), "not a JSON object"),
        (call("read_file", path=5), "path must be of type string"),
        (call("read_file"), "needs the argument 'path'"),
        (call("read_file", path="a", colour="red"), "no argument 'colour'"),
        (call("read_file", path="missing.txt"), "missing.txt"),
    ],
)
async def test_invalid_call_returns_an_error_to_the_model(
    tmp_path: Path, wrong: ToolCall, complaint: str
) -> None:
    agent, model = scripted([calls(wrong), "sorry"], tmp_path)
    result = await agent.run("go")
    assert result.success
    answer = model.requests[1].messages[-1]
    assert answer.is_error
    assert complaint in answer.text


class Planning(Handmade):
    """A tool whose plan raises an error."""

    async def plan(self, args: Mapping[str, Any], context: CallContext) -> EffectPlan:
        raise KeyError("plan")


async def buggy(args: Mapping[str, Any], context: CallContext) -> ToolResult:
    raise ZeroDivisionError("by zero")


async def wrong_kind(args: Mapping[str, Any], context: CallContext) -> ToolResult:
    return "just text"  # type: ignore[return-value]  # what a user's tool may do


async def waits_for_something_cancelled(
    args: Mapping[str, Any], context: CallContext
) -> ToolResult:
    inner: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
    inner.cancel()
    return await inner


async def own_timeout(args: Mapping[str, Any], context: CallContext) -> ToolResult:
    raise TimeoutError("the printer is silent")


@pytest.mark.parametrize(
    ("tool", "complaint"),
    [
        (Handmade("t", buggy), "ZeroDivisionError: by zero"),
        (Planning("t", buggy), "KeyError"),
        (Handmade("t", wrong_kind), "must return a ToolResult, found str"),
        (Handmade("t", waits_for_something_cancelled), "cancelled"),
        (Handmade("t", own_timeout), "the printer is silent"),
    ],
)
@pytest.mark.parametrize("together", [False, True])
async def test_bug_in_a_tool_becomes_a_result(
    tmp_path: Path, tool: Handmade, complaint: str, together: bool
) -> None:
    planned = [call("t", "c1"), *([call("other", "c2")] if together else [])]
    agent, model = scripted([calls(*planned), "I see"], tmp_path, tool, answers("other"))
    result = await agent.run("go")
    assert result.text == "I see"
    answer = model.requests[1].messages[2]
    assert answer.is_error
    assert complaint in answer.text


async def test_hanging_tool_is_stopped_after_its_timeout(tmp_path: Path) -> None:
    hanging = Hanging()
    settings = AgentSettings(call_timeout_s=0.01)
    agent, _ = scripted([calls(call("hang")), "so be it"], tmp_path, hanging, settings=settings)
    result = await agent.run("go")
    assert hanging.stopped
    assert result.text == "so be it"
    assert "longer than 0.01 s" in results(result.messages)[0]


class Person:
    """A person who answers every question the same way and records the questions."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[ApprovalRequest] = []

    async def ask(self, request: ApprovalRequest) -> Answer:
        self.requests.append(request)
        return self.answer


OVERWRITE = calls(
    call("read_file", "c0", path="a.txt"), call("write_file", path="a.txt", content="new")
)


async def test_overwriting_asks_with_a_diff_and_needs_approval(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    person = Person("once")
    permissions = Permissions(DefaultPolicy(), person)
    agent, _ = scripted([OVERWRITE, "done"], tmp_path, permissions=permissions)
    await agent.run("go")
    assert (tmp_path / "a.txt").read_text() == "new"
    (result,) = person.requests
    assert "-old" in (result.diff or "")
    assert "+new" in (result.diff or "")


@pytest.mark.parametrize(
    ("person", "said"),
    [
        (Person("deny"), load_prompt("person_said_no")),
        (
            None,
            render_prompt(
                "nobody_to_ask",
                reason=load_prompt("policy/ask_change"),
                remedy=load_prompt("nobody_remedy"),
            ),
        ),
    ],
)
async def test_unapproved_overwrite_changes_nothing(
    tmp_path: Path, person: Person | None, said: str
) -> None:
    (tmp_path / "a.txt").write_text("old")
    permissions = Permissions(DefaultPolicy(), person)
    agent, _ = scripted([OVERWRITE, "done"], tmp_path, permissions=permissions)
    result = await agent.run("go")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert results(result.messages)[1:] == [said]


@pytest.mark.parametrize("mode", MODES[1:])
async def test_yes_option_is_not_advised_if_it_does_not_help(
    tmp_path: Path, mode: PermissionMode
) -> None:
    agent, _ = scripted(
        [calls(call("exec", command="$X")), "done"],
        tmp_path,
        permissions=Permissions(DefaultPolicy(mode)),
    )
    (result,) = results((await agent.run("go")).messages)
    assert "-y" not in result
    assert "Find a way that needs no question" in result
    assert "computes" in result


async def test_undeclared_tool_needs_approval_after_private_and_untrusted_text(
    tmp_path: Path,
) -> None:
    class Post(Handmade):
        brings: frozenset[Taint] = UNTRUSTED

    async def body(args: Mapping[str, Any], call: CallContext) -> ToolResult:
        return ToolResult("sent")

    (tmp_path / "a.txt").write_text("private")
    person = Person("deny")
    steps = [calls(call("post")), calls(call("read_file", path="a.txt")), calls(call("post"))]
    tools = (Post("post", body),)
    permissions = Permissions(DefaultPolicy("auto"), person)
    agent, _ = scripted([*steps, "done"], tmp_path, *tools, permissions=permissions)
    result = await agent.run("go")
    texts = results(result.messages)
    assert texts[0] == "sent"
    assert texts[2] == load_prompt("person_said_no")
    assert [asked.rule for asked in person.requests] == ["taint-way-out"]


async def test_approver_is_asked_for_a_tool_without_a_plan(tmp_path: Path) -> None:
    person = Person("once")
    model = ScriptedProvider([calls(call("act")), "done"])
    tools = [answers("act", "acted", "unsafe")]
    agent = Agent(model, tools=tools, approve=person, workspace=tmp_path)
    result = await agent.run("go")
    assert [asked.tool for asked in person.requests] == ["act"]
    assert results(result.messages) == ["acted"]


async def test_resumed_turn_runs_only_unanswered_calls(tmp_path: Path) -> None:
    ran: list[str] = []

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        ran.append(context.call.id)
        return ToolResult("fresh")

    agent, model = scripted(["finished"], tmp_path, Handmade("work", body, "idempotent"))
    messages = [user("go"), calls(call("work", "c1"), call("work", "c2"), text="On it.")]
    known = {"c1": ToolResult("from before")}
    _, result = await run_turn(agent, task(agent, messages, known=known))
    assert ran == ["c2"]
    assert results(model.requests[0].messages) == ["from before", "fresh"]
    assert [message.role for message in result.messages] == ["tool", "tool", "assistant"]
    assert result.text == "On it.\n\nfinished"


async def test_ids_reused_by_a_vendor_are_new_calls(tmp_path: Path) -> None:
    ran: list[object] = []

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        ran.append(args["n"])
        return ToolResult(f"result {args['n']}")

    hanging = Hanging()
    replies = [calls(call("work", "call_0", n=2)), calls(call("hang", "call_0"))]
    agent, _ = scripted(replies, tmp_path, Handmade("work", body), hanging)
    stop = CancelToken()
    messages = [user("go"), calls(call("work", "call_0", n=1))]
    known = {"call_0": ToolResult("result 1")}
    async with asyncio.TaskGroup() as group:
        request = task(agent, messages, known=known, stop=stop)
        turn = group.create_task(run_turn(agent, request))
        await hanging.started.wait()
        stop.request()
    assert ran == [2]
    _, result = turn.result()
    assert results(result.messages) == ["result 1", "result 2", load_prompt("interrupted")]


async def test_signal_ends_the_turn_after_the_tools_of_its_reply(tmp_path: Path) -> None:
    text = "<promise>BLOCKED: no key</promise>"
    agent, model = scripted([calls(call("note"), text=text), "never"], tmp_path, answers("note"))
    seen, result = await run_turn(agent, task(agent))
    assert len(model.requests) == 1
    assert seen[-2] == events.Signalled("BLOCKED", "no key")
    assert (result.signal, result.signal_reason) == ("BLOCKED", "no key")
    assert not result.success
    assert results(result.messages) == ["fine"]


async def test_unstorable_step_ends_the_turn(tmp_path: Path) -> None:
    class FullDisk:
        async def reply(self, message: Message) -> None: ...

        async def start(self, call: ToolCall, effect: str) -> None:
            raise OSError("the disk is full")

        async def finish(self, call: ToolCall, result: ToolResult) -> None: ...

    ran = Hanging()
    for planned in ([call("hang", "c1")], [call("hang", "c1"), call("hang", "c2")]):
        agent, _ = scripted([calls(*planned)], tmp_path, ran)
        async with expect_no_task_left():
            with pytest.raises(OSError, match="disk is full"):
                await run_turn(agent, task(agent, progress=FullDisk()))
    assert not ran.started.is_set()


async def test_closing_the_agent_closes_its_models(tmp_path: Path) -> None:
    agent, model = scripted(["hi"], tmp_path)
    await agent.run("hi")
    await agent.aclose()
    assert model.closed


async def test_picture_reaches_the_model_and_the_history(tmp_path: Path) -> None:
    model = ScriptedProvider(["a dot", "still a dot"])
    history = JsonlHistory(tmp_path / "chats")
    agent = Agent(model, workspace=tmp_path, history=history)
    picture = Image("image/png", b"\x89PNG")
    await agent.run(Message("user", (picture, Text("what is it?"))), session="s")
    await agent.run("and now?", session="s")
    for request in model.requests:
        assert request.messages[0].content[:2] == (picture, Text("what is it?"))
        assert isinstance(request.messages[0].content[-1], Context)
    await agent.aclose()


async def test_agents_md_stays_in_the_prompt_of_every_turn(
    tmp_path: Path,
) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    model = ScriptedProvider(["One.", "Two."])
    agent = Agent(model, workspace=tmp_path)
    first = await agent.run("hi", session="s")
    await agent.run("and now?", session="s")
    assert ["Use tabs." in request.system for request in model.requests] == [True, True]
    assert model.requests[0].system == model.requests[1].system
    assert not any(message.taint for message in first.messages)


def test_concurrent_threads_get_the_same_tools(tmp_path: Path) -> None:
    def toolbox_id(agent: Agent, gate: threading.Barrier) -> int:
        gate.wait()
        return id(agent.toolbox)

    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            agent, gate = Agent("offline/echo", workspace=tmp_path), threading.Barrier(4)
            futures = [threads.submit(toolbox_id, agent, gate) for _ in range(4)]
            assert len({item.result() for item in futures}) == 1


async def test_project_is_described_once_and_then_its_changes(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "main.py").write_text("print()\n")
    (folder / "README.md").write_text("# Shop\n\nA small shop.\n")
    texts: list[str] = []
    for n in range(3):
        if n == 2:
            (folder / "new.py").write_text("print()\n")
        history = JsonlHistory(tmp_path / "history")
        settings = AgentSettings(project=True)
        agent, model = scripted(["done"], folder, history=history, settings=settings)
        await agent.run("hi", session="s")
        result = [message for message in model.requests[-1].messages if message.role == "user"][-1]
        texts.append("\n".join(item.text for item in result.content if isinstance(item, Context)))
        assert {"lsp", "outline"} < {tool.name for tool in model.requests[-1].tools}
    first, second, third = texts
    assert "main.py (8 B)" in first
    assert "A small shop." in first
    assert "main.py" not in second
    assert "new.py" in third
    assert "A small shop." not in third


@pytest.mark.parametrize(
    ("model", "effort", "is_project", "sent"),
    [
        ("openai/gpt-6-luna", None, True, {"reasoning_effort": "medium", "verbosity": "low"}),
        ("openai/gpt-6-luna", "max", True, {"reasoning_effort": "max", "verbosity": "low"}),
        ("openai/gpt-6-luna", None, False, {}),
        ("anthropic/claude-opus-5-5", None, True, {"reasoning_effort": "high"}),
        ("mistral/other", None, True, {}),
    ],
)
def test_model_has_settings_of_its_own_for_projects(
    model: str, effort: Any, is_project: bool, sent: Mapping[str, str], tmp_path: Path
) -> None:
    environ = {name: "k" for vendor in VENDORS.values() for name in vendor.key_variables}
    opened = ModelPool(model, environ=environ).open()
    recorder = ScriptedProvider(["done"])
    agent, _ = scripted(["done"], tmp_path, settings=AgentSettings(project=is_project))
    agent.models._open["m"] = replace(opened, provider=recorder)
    asyncio.run(agent.run("hi", model="m", model_settings=ModelSettings(reasoning_effort=effort)))
    assert dict(recorder.requests[0].options) == sent


@pytest.mark.parametrize(
    ("model", "tool"),
    [("openai/gpt-6-luna", "apply_patch"), ("anthropic/claude-opus-5-5", "edit_file")],
)
def test_model_gets_the_editing_tool_that_it_knows(model: str, tool: str, tmp_path: Path) -> None:
    environ = {name: "k" for vendor in VENDORS.values() for name in vendor.key_variables}
    recorder = ScriptedProvider(["done"])
    agent, _ = scripted(["done"], tmp_path)
    opened = ModelPool(model, environ=environ).open()
    agent.models._open["m"] = replace(opened, provider=recorder)
    asyncio.run(agent.run("hi", model="m"))
    names = {spec.name for spec in recorder.requests[0].tools}
    assert names & {"apply_patch", "edit_file"} == {tool}
