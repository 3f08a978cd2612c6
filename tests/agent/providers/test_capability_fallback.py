"""Requests adapted to features that a model has rejected."""

from dataclasses import replace

import pytest

from agent.errors import BadImage, BadThoughts, NoImages, NoThinking, NoTools, Rejected
from agent.events import ModelEvent, Notice, Reply
from agent.providers.base import REPLAYED_THOUGHTS, ModelRequest, ToolSpec
from agent.providers.capability_fallback import CapabilityFallback
from agent.providers.scripted import ScriptedProvider
from agent.types import Image, Message, RedactedThinking, Text, Thinking, assistant, user

TOOL = ToolSpec("exec", "Run.", {"properties": {"command": {"type": "string"}}})
ASKED = ModelRequest("m", "", (user("hi"),), (TOOL,), options={"reasoning_effort": "high"})
CALL = '<tool name="exec">ls</tool>'


async def events_of(provider: CapabilityFallback, asked: ModelRequest = ASKED) -> list[ModelEvent]:
    return [event async for event in provider.stream(asked)]


async def test_tools_are_described_in_text_after_a_rejection() -> None:
    model = ScriptedProvider([NoTools("no"), CALL, CALL, "other"])
    provider = CapabilityFallback(model)
    for _ in range(2):
        reply = (await events_of(provider))[-1]
        assert isinstance(reply, Reply)
        assert [call.arguments for call in reply.message.tool_calls] == [{"command": "ls"}]
    await events_of(provider, replace(ASKED, model="another"))
    assert [bool(request.tools) for request in model.requests] == [True, False, False, True]


async def test_unsupported_thinking_is_dropped_with_a_notice() -> None:
    model = ScriptedProvider([NoThinking("it does not think"), "one", "two"])
    provider = CapabilityFallback(model)
    events = await events_of(provider)
    await events_of(provider)
    assert isinstance(events[0], Notice)
    assert [dict(request.options) for request in model.requests] == [
        {"reasoning_effort": "high"},
        {},
        {},
    ]


async def test_missing_tools_and_thinking_are_both_handled() -> None:
    model = ScriptedProvider([NoThinking("no"), NoTools("no"), CALL])
    reply = (await events_of(CapabilityFallback(model)))[-1]
    assert isinstance(reply, Reply)
    assert reply.message.tool_calls


async def test_error_that_no_fallback_fixes_is_raised() -> None:
    provider = CapabilityFallback(
        ScriptedProvider([NoTools("no"), NoTools("again"), Rejected("bad")])
    )
    with pytest.raises(NoTools, match="again"):
        await events_of(provider)
    with pytest.raises(Rejected, match="bad"):
        await events_of(provider)


async def test_text_tools_can_be_configured() -> None:
    model = ScriptedProvider([CALL])
    reply = (await events_of(CapabilityFallback(model, tools="xml")))[-1]
    assert isinstance(reply, Reply)
    assert reply.message.tool_calls
    assert model.requests[0].tools == ()


async def test_rejected_picture_is_left_out_and_others_are_sent() -> None:
    good = Message("user", (Image("image/png", b"good"), Text("and this?")))
    huge = Message("user", (Image("image/png", b"huge"), Text("and that?")))
    model_request = replace(ASKED, messages=(good, Message("assistant", (Text("a cat"),)), huge))
    model = ScriptedProvider(["a dog", BadImage("over 5 MB"), "one", "two"])
    provider = CapabilityFallback(model)
    await events_of(provider, replace(model_request, messages=model_request.messages[:1]))
    events = await events_of(provider, model_request)
    assert isinstance(events[0], Notice)
    await events_of(provider, model_request)
    for request in model.requests[2:]:
        assert request.messages[0] is good
        assert not any(isinstance(part, Image) for part in request.messages[2].content)
        assert "picture" in request.messages[2].text
        assert request.messages[2].text.endswith("and that?")


async def test_all_pictures_are_removed_before_the_error_is_raised() -> None:
    pictures = [Message("user", (Image("image/png", data), Text("?"))) for data in (b"a", b"b")]
    request = replace(ASKED, messages=(pictures[0], THOUGHT, pictures[1]))
    model = ScriptedProvider(
        [BadImage("one"), BadImage("two"), "so", BadImage("no"), BadImage("never")]
    )
    await events_of(CapabilityFallback(model), request)
    results = [
        [isinstance(p, Image) for m in r.messages for p in m.content] for r in model.requests
    ]
    assert [sum(item) for item in results] == [2, 1, 0]
    with pytest.raises(BadImage, match="never"):
        await events_of(CapabilityFallback(model), replace(request, messages=pictures[:1]))


THOUGHT = Message("assistant", (Thinking("hm", "signed"), RedactedThinking("xx"), Text("yes")))
NEXT = Message("assistant", (Thinking("aha", "by this one"), Text("no")))


async def test_rejected_thinking_is_left_out_and_later_thinking_is_sent() -> None:
    model = ScriptedProvider([BadThoughts("signed by another"), "one", "two"])
    provider = CapabilityFallback(model)
    model_request = replace(ASKED, messages=(user("hi"), THOUGHT, user("and?")))
    assert not any(isinstance(event, Notice) for event in await events_of(provider, model_request))
    await events_of(
        provider, replace(model_request, messages=(*model_request.messages, NEXT, user("so?")))
    )
    first, second, third = (request.messages for request in model.requests)
    assert first[1] is THOUGHT
    assert second[1].content == third[1].content == (Text("yes"),)
    assert third[3] is NEXT
    assert all(request.options == {"reasoning_effort": "high"} for request in model.requests)


async def test_missing_thinking_is_replayed_if_the_provider_can() -> None:
    model = Remembering([BadThoughts("pass it back", missing=True), "one"])
    await events_of(CapabilityFallback(model))
    assert [REPLAYED_THOUGHTS in request.adaptations for request in model.requests] == [False, True]
    assert [dict(request.options) for request in model.requests] == [
        {"reasoning_effort": "high"}
    ] * 2


async def test_unrepairable_thinking_is_disabled() -> None:
    missing = BadThoughts("begins without a thought", missing=True)
    model = ScriptedProvider(
        [missing, "one", BadThoughts("and again"), BadThoughts("still"), "two"]
    )
    provider = CapabilityFallback(model)
    await events_of(provider)
    await events_of(provider, replace(ASKED, messages=(user("hi"), THOUGHT, user("and?"))))
    efforts = [request.options["reasoning_effort"] for request in model.requests]
    assert efforts == ["high", "none", "high", "high", "none"]


async def test_other_rejection_of_thinking_is_raised() -> None:
    with pytest.raises(BadThoughts, match="three"):
        await events_of(
            CapabilityFallback(
                ScriptedProvider([BadThoughts("one"), BadThoughts("two"), BadThoughts("three")])
            ),
            replace(ASKED, messages=(user("hi"), THOUGHT, user("and?"))),
        )


class Remembering(ScriptedProvider):
    """A provider that can return its thoughts."""

    def __init__(self, replies: list[Exception | str]) -> None:
        super().__init__(replies)

    def optional_fields(self, request: ModelRequest) -> set[str]:
        return {REPLAYED_THOUGHTS} - request.adaptations


async def test_native_tools_setting_prevents_text_tools() -> None:
    model = ScriptedProvider([NoTools("no"), NoThinking("no"), "one"])
    provider = CapabilityFallback(model, tools="native")
    with pytest.raises(NoTools):
        await events_of(provider)
    await events_of(provider)
    assert all(request.tools for request in model.requests)


async def test_model_without_image_input_gets_a_placeholder() -> None:
    picture = Message("user", (Image("image/png", b"x"), Text("what is it?")))
    model_request = replace(ASKED, messages=(user("hi"), picture), options={})
    model = ScriptedProvider([NoImages("no"), "one", "two"])
    provider = CapabilityFallback(model)
    events = await events_of(provider, model_request)
    await events_of(provider, model_request)
    assert isinstance(events[0], Notice)
    assert model.requests[0].messages[1] is picture
    for request in model.requests[1:]:
        assert request.messages[0] is model_request.messages[0]
        assert not any(isinstance(part, Image) for part in request.messages[1].content)
        assert request.messages[1].text.endswith("what is it?")


async def test_notice_about_omitted_pictures_appears_once_per_question() -> None:
    provider = CapabilityFallback(ScriptedProvider(["one"] * 4), images=False)
    first, second = (
        replace(ASKED, messages=(Message("user", (Image("image/png", data), Text("?"))),))
        for data in (b"x", b"y")
    )
    plain = replace(ASKED, messages=(*first.messages, assistant("one"), user("and now?")))
    counts = []
    for request in (first, first, plain, second):
        events = await events_of(provider, request)
        counts.append(len([event for event in events if isinstance(event, Notice) and event.below]))
    assert counts == [1, 0, 0, 1]


async def test_known_missing_capabilities_are_not_tried() -> None:
    model = ScriptedProvider(["one", "two"])
    provider = CapabilityFallback(model, images=False, thinking=False)
    pictured = replace(ASKED, messages=(Message("user", (Image("image/png", b"x"), Text("?"))),))
    notices = [item for _ in range(2) for item in await events_of(provider, pictured)]
    assert [notice.text for notice in notices if isinstance(notice, Notice)] == [
        "m cannot see pictures"
    ]
    assert [dict(request.options) for request in model.requests] == [{}, {}]
    sent = [part for request in model.requests for two in request.messages for part in two.content]
    assert not any(isinstance(part, Image) for part in sent)
