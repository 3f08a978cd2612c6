"""The offline echo provider and scripted models."""

from collections.abc import Sequence

import pytest

from agent.errors import Rejected, Unavailable
from agent.events import Reply, TextDelta, ThinkingEnd
from agent.providers.base import ModelRequest, Provider
from agent.providers.scripted import EchoProvider, ScriptedProvider
from agent.types import Message, Text, Thinking, assistant, user


async def ask(provider: Provider, *messages: Message) -> list[object]:
    request = ModelRequest("echo", "", messages)
    return [event async for event in provider.stream(request)]


async def reply_to(provider: Provider, *messages: Message) -> Message:
    reply = (await ask(provider, *messages))[-1]
    assert isinstance(reply, Reply)
    return reply.message


def results(calls: Sequence[str], text: str) -> list[Message]:
    return [Message("tool", (Text(text),), tool_call_id=call) for call in calls]


async def test_echo_identifies_itself_and_repeats_the_text() -> None:
    events = await ask(EchoProvider(), user("Grüß dich $5", "[noon]"))
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert "stand-in" in text
    assert text.endswith("Grüß dich $5")


async def test_tool_lines_become_calls_and_results_are_quoted() -> None:
    message = user('please\n!tool read_file {"path": "x"}\n!tool list_dir\n!tool exec {"broken')
    first = await reply_to(EchoProvider(), message)
    assert [(call.id, call.name, call.arguments) for call in first.tool_calls] == [
        ("call_1", "read_file", {"path": "x"}),
        ("call_2", "list_dir", {}),
        ("call_3", "exec", None),
    ]
    answers = results([call.id for call in first.tool_calls], "line one\nline two")
    last = await reply_to(EchoProvider(), message, first, *answers)
    assert not last.tool_calls
    assert last.text.count("> line one\n> line two") == 3


async def test_ids_are_unique_in_a_conversation() -> None:
    message = user("!tool list_dir")
    first = await reply_to(EchoProvider(), message)
    history = [message, first, *results(["call_1"], "x"), assistant("done")]
    second = await reply_to(EchoProvider(), *history, message)
    assert second.tool_calls[0].id == "call_2"


async def test_script_steps_run_in_order() -> None:
    thoughtful = Message("assistant", (Thinking("hm"), Text("two")))
    provider = ScriptedProvider(
        ["one", thoughtful, Unavailable("down"), lambda request: f"{len(request.messages)}"]
    )
    assert (await reply_to(provider, user("a"))).text == "one"
    events = await ask(provider, user("b"))
    assert ThinkingEnd("hm") in events
    with pytest.raises(Unavailable):
        await ask(provider, user("c"))
    assert (await reply_to(provider, user("d"), user("e"))).text == "2"
    with pytest.raises(Rejected, match="4 replies"):
        await ask(provider, user("f"))
    assert [request.messages[0].text for request in provider.requests] == list("abcdf")
