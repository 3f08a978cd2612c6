"""Every vendor that Kore knows by name, in its own dialect, with a server that is as strict."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.events import Reply
from agent.providers.base import ModelRequest, ToolSpec
from agent.providers.openai.unknown_fields import UnknownFields
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.providers.vendors import VENDORS
from agent.types import Message, RedactedThinking, Text, Thinking, ToolCall, assistant, user
from tests.contracts.vendors import DETAILED, DETAILS, SIGNED, objection
from tests.fakes.model import ModelServer
from tests.fakes.model_mind import echo
from tests.fakes.model_script import Call, ReplyScript

TOOL = ToolSpec("exec", "Run.", {"type": "object", "properties": {"command": {"type": "string"}}})
AWKWARD = ("Zürich", "say \"hi\" and 'bye'", "C:\\new\\", "👋🏽 👩‍👩‍👧", "你好，世界")


def awkward_calls(vendor: str) -> tuple[Call, ...]:
    """Return calls as the vendor sends them: Gemini signs the first."""
    signed = [SIGNED if vendor == "gemini" else None]
    extras = signed + [None] * (len(AWKWARD) - 1)
    return tuple(
        Call("exec", {"command": text}, f"c{n}", extra=extra)
        for n, (text, extra) in enumerate(zip(AWKWARD, extras, strict=True))
    )


@dataclass(slots=True)
class Shop:
    """A vendor whose replies are scripted unless it refuses the request."""

    vendor: str
    server: ModelServer
    models: ModelPool
    replies: list[ReplyScript] = field(default_factory=list)
    refused: int = 0

    def answer(self, body: dict[str, Any]) -> ReplyScript:
        script = objection(self.vendor, self.server.requests[-1].body)
        if script is not None:
            self.refused += 1
            return script
        return self.replies.pop(0) if self.replies else echo(body)

    async def reply(self, *messages: Message, **fields: Any) -> Message:
        opened = self.models.open()
        request = ModelRequest(opened.model, "Be brief.", messages, (TOOL,), **fields)
        last = [event async for event in opened.provider.stream(request)][-1]
        assert isinstance(last, Reply)
        return last.message


@pytest.fixture(params=VENDORS)
async def shop(request: pytest.FixtureRequest, model_server: ModelServer) -> AsyncIterator[Shop]:
    vendor = request.param
    config = ModelConfig("m", f"{vendor}/claude-haiku-4-5", model_server.base_url, "sk-key")
    shop = Shop(vendor, model_server, ModelPool("m", [config]))
    model_server.mind = shop.answer  # type: ignore[assignment]
    yield shop
    await shop.models.aclose()


def results(reply: Message) -> list[Message]:
    return [Message("tool", (Text("ok"),), (), call.id) for call in reply.tool_calls]


@pytest.mark.parametrize("effort", [None, "high", "none"])
async def test_calls_and_thinking_are_replayed(shop: Shop, effort: str | None) -> None:
    result = {"max_tokens": 20_000, "temperature": 1.0}
    result["options"] = {} if effort is None else {"reasoning_effort": effort}  # type: ignore[assignment]
    calls = awkward_calls(shop.vendor)
    shop.replies = [ReplyScript(reasoning="hm", tool_calls=calls), ReplyScript(text="Done.")]
    first = await shop.reply(user("hi"), **result)
    assert [call.arguments for call in first.tool_calls] == [call.arguments for call in calls]
    history = [user("hi"), first, *results(first)]
    second = await shop.reply(*history, **result)
    assert second.text == "Done."
    third = await shop.reply(*history, second, user("bye"), **result)
    assert third.text == "echo: bye"
    # At a custom address Kore first sends the name that every server knows.
    assert shop.refused == (shop.vendor == "openai")


async def test_reasoning_details_are_replayed_in_chat_completions(shop: Shop) -> None:
    calls = awkward_calls(shop.vendor)
    shop.replies = [ReplyScript(reasoning="hm", details=DETAILS, tool_calls=calls)]
    first = await shop.reply(user("hi"))
    await shop.reply(user("hi"), first, *results(first))
    replies = [
        message for message in shop.server.requests[-1].body["messages"] if "tool_calls" in message
    ]
    replayed = [reply["reasoning_details"] for reply in replies if "reasoning_details" in reply]
    assert replayed == ([DETAILED] if VENDORS[shop.vendor].protocol == "openai" else [])
    assert shop.refused == 0


CALL = ToolCall("functions.exec:0", "exec", {"command": "ls"}, '{"command": "ls"}')
FOREIGN = UnknownFields()
FOREIGN.add_to_call(CALL.id, {"extra_content": {"google": {"thought_signature": "Zm9yZWlnbg=="}}})
OTHERS = {
    "nobody": assistant("", (CALL,)),
    "anthropic": Message(
        "assistant", (Thinking("hm", "EqQBCgIY"), RedactedThinking("Emw="), Text("so")), (CALL,)
    ),
    "gemini": Message("assistant", (Thinking("", FOREIGN.signature("another server")),), (CALL,)),
    "deepseek": Message("assistant", (Thinking("I look"), Text("Looking.")), (CALL,)),
}


@pytest.mark.parametrize("effort", [None, "high"])
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
async def test_turn_of_another_model_continues(
    shop: Shop, other: Message, effort: str | None
) -> None:
    """A fallback takes over during a turn, or a person has chosen another model."""
    result = {"options": {} if effort is None else {"reasoning_effort": effort}}
    history = [user("hi"), other, *results(other)]
    shop.replies = [ReplyScript(reasoning="aha", text="Done.")]
    reply = await shop.reply(*history, **result)
    assert reply.text == "Done."
    assert (await shop.reply(*history, reply, user("bye"), **result)).text == "echo: bye"
