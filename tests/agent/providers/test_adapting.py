"""What a model refused is remembered and done without."""

from dataclasses import replace

import pytest

from agent.errors import NoImages, NoThinking, NoTools, Rejected
from agent.events import ModelEvent, Notice, Reply
from agent.providers.adapting import Adapting
from agent.providers.base import ModelRequest, ToolSpec
from agent.providers.scripted import Scripted
from agent.types import Image, Message, Text, user

TOOL = ToolSpec("exec", "Run.", {"properties": {"command": {"type": "string"}}})
ASKED = ModelRequest("m", "", (user("hi"),), (TOOL,), options={"thinking": True})
CALL = '<tool name="exec">ls</tool>'


async def events_of(provider: Adapting, asked: ModelRequest = ASKED) -> list[ModelEvent]:
    return [event async for event in provider.stream(asked)]


async def test_a_model_without_tools_is_told_of_them_in_words_from_then_on() -> None:
    model = Scripted([NoTools("no"), CALL, CALL, "other"])
    provider = Adapting(model)
    for _ in range(2):
        reply = (await events_of(provider))[-1]
        assert isinstance(reply, Reply)
        assert [call.arguments for call in reply.message.tool_calls] == [{"command": "ls"}]
    await events_of(provider, replace(ASKED, model="another"))
    assert [bool(one.tools) for one in model.requests] == [True, False, False, True]


async def test_a_model_that_does_not_think_is_asked_without_and_a_person_is_told() -> None:
    model = Scripted([NoThinking("it does not think"), "one", "two"])
    provider = Adapting(model)
    events = await events_of(provider)
    await events_of(provider)
    assert isinstance(events[0], Notice)
    assert [dict(one.options) for one in model.requests] == [{"thinking": True}, {}, {}]


async def test_both_may_be_missing() -> None:
    model = Scripted([NoThinking("no"), NoTools("no"), CALL])
    reply = (await events_of(Adapting(model)))[-1]
    assert isinstance(reply, Reply)
    assert reply.message.tool_calls


async def test_what_no_change_mends_is_raised() -> None:
    provider = Adapting(Scripted([NoTools("no"), NoTools("again"), Rejected("bad")]))
    with pytest.raises(NoTools, match="again"):
        await events_of(provider)
    with pytest.raises(Rejected, match="bad"):
        await events_of(provider)


async def test_words_can_be_chosen_for_good() -> None:
    model = Scripted([CALL])
    reply = (await events_of(Adapting(model, xml_tools=True)))[-1]
    assert isinstance(reply, Reply)
    assert reply.message.tool_calls
    assert model.requests[0].tools == ()


async def test_a_model_that_sees_nothing_is_told_that_there_was_a_picture() -> None:
    picture = Message("user", (Image("image/png", b"x"), Text("what is it?")))
    asked = replace(ASKED, messages=(user("hi"), picture), options={})
    model = Scripted([NoImages("no"), "one", "two"])
    provider = Adapting(model)
    events = await events_of(provider, asked)
    await events_of(provider, asked)
    assert isinstance(events[0], Notice)
    assert model.requests[0].messages[1] is picture
    for request in model.requests[1:]:
        assert request.messages[0] is asked.messages[0]
        assert not any(isinstance(part, Image) for part in request.messages[1].content)
        assert request.messages[1].text.endswith("what is it?")
