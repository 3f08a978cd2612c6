"""Features of the Responses API beyond chat completions: items, stored reasoning and phases."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from agent.errors import NoEncryptedReasoning, Rejected, Unavailable
from agent.events import FILTERED, Notice, Reply, ThinkingDelta
from agent.providers import vendors
from agent.providers.base import ClosingProvider, ModelRequest, ToolSpec
from agent.providers.capability_fallback import CapabilityFallback
from agent.providers.http.transport import Endpoint
from agent.providers.openai.api_choice import OpenAIApiChoice
from agent.providers.openai.provider import OpenAICompatibleProvider
from agent.providers.openai.responses.provider import PATH, OpenAIResponsesProvider
from agent.providers.openai.responses.request import ResponsesRequestEncoder
from agent.providers.openai.responses.response import ResponsesResponseBuilder
from agent.providers.opening import open_provider
from agent.providers.registry import ModelConfig, resolve_model
from agent.types import Image, Message, Text, Thinking, ToolCall, ToolCallMarker, assistant, user
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Break, Call, ReplyScript, refusal
from tests.fakes.responses_wire import ENCRYPTED

TOOLS = (ToolSpec("exec", "Run a command.", {"type": "object", "properties": {}}),)
ASKED = ModelRequest("fake", "Be brief.", (user("hi"),), TOOLS)
NEEDS_RESPONSES = refusal(
    400,
    "Function tools with reasoning_effort are not supported for fake in /v1/chat/completions. "
    "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
)


@pytest.fixture
async def provider(model_server: ModelServer) -> AsyncIterator[OpenAIResponsesProvider]:
    provider = OpenAIResponsesProvider(Endpoint("openai", model_server.base_url, path=PATH))
    yield provider
    await provider.aclose()


async def events_of(provider: ClosingProvider, asked: ModelRequest = ASKED) -> list[object]:
    return [event async for event in provider.stream(asked)]


async def reply_of(provider: ClosingProvider, asked: ModelRequest = ASKED) -> Reply:
    reply = (await events_of(provider, asked))[-1]
    assert isinstance(reply, Reply)
    return reply


def continued(*messages: Message) -> ModelRequest:
    return ModelRequest("fake", "Be brief.", (user("hi"), *messages), TOOLS)


def result_of(call_id: str) -> Message:
    return Message("tool", (Text("file"),), tool_call_id=call_id)


async def test_request_is_not_stored_and_includes_encrypted_reasoning(
    provider: OpenAIResponsesProvider, model_server: ModelServer
) -> None:
    request = ModelRequest(
        "fake",
        "Be brief.",
        (user("hi"),),
        TOOLS,
        0.5,
        100,
        {"reasoning_effort": "high", "top_p": 1},
    )
    await reply_of(provider, request)
    body = model_server.requests[0].body
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["instructions"] == "Be brief."
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert (body["temperature"], body["max_output_tokens"], body["top_p"]) == (0.5, 100, 1)
    assert body["tools"][0]["strict"] is False
    assert body["input"] == [{"type": "message", "role": "user", "content": "hi"}]


async def test_encrypted_reasoning_is_replayed_in_place(
    provider: OpenAIResponsesProvider, model_server: ModelServer
) -> None:
    call = Call("exec", {"command": "ls"}, "c1")
    model_server.script(ReplyScript(reasoning="hm, well", text="I look.", tool_calls=(call,)))
    events = await events_of(provider)
    assert any(isinstance(event, ThinkingDelta) for event in events)
    reply = events[-1]
    assert isinstance(reply, Reply)
    await reply_of(provider, continued(reply.message, result_of("c1")))
    sent = model_server.requests[-1].body["input"]
    assert [item["type"] for item in sent] == [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ]
    assert sent[1]["encrypted_content"] == ENCRYPTED
    assert sent[1]["summary"] == [{"type": "summary_text", "text": "hm, well"}]
    assert sent[2]["phase"] == "commentary"


PATCH = '*** Begin Patch\n*** Add File: a\n+"1" \\ ü\n*** End Patch'
PATCHING = ToolSpec("apply_patch", "Apply a patch.", {"type": "object"}, 'start: "x"')


async def test_tool_with_a_grammar_takes_free_text(
    provider: OpenAIResponsesProvider, model_server: ModelServer
) -> None:
    asked = replace(ASKED, tools=(*TOOLS, PATCHING))
    calls = (Call("apply_patch", {"input": PATCH}, "c1"), Call("exec", {"command": "ls"}, "c2"))
    model_server.script(ReplyScript(reasoning="hm", tool_calls=calls, pieces=7))
    reply = await reply_of(provider, asked)
    assert [call.arguments for call in reply.message.tool_calls] == [
        {"input": PATCH},
        {"command": "ls"},
    ]
    messages = (user("hi"), reply.message, result_of("c1"), result_of("c2"))
    await reply_of(provider, replace(asked, messages=messages))
    first, second = (request.body for request in model_server.requests)
    assert first["tools"][1] == {
        "type": "custom",
        "name": "apply_patch",
        "description": "Apply a patch.",
        "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'},
    }
    assert [item["type"] for item in second["input"]] == [
        "message",
        "reasoning",
        "custom_tool_call",
        "function_call",
        "custom_tool_call_output",
        "function_call_output",
    ]
    assert second["input"][2]["input"] == PATCH


async def test_server_without_grammars_gets_a_function(model_server: ModelServer) -> None:
    endpoint = Endpoint("openai", model_server.base_url, path=PATH)
    provider = CapabilityFallback(OpenAIResponsesProvider(endpoint))
    call = ToolCall("c1", "apply_patch", {"input": PATCH}, json.dumps({"input": PATCH}))
    messages = (user("hi"), Message("assistant", (), (call,)), result_of("c1"))
    refused = refusal(400, "Invalid value: 'custom'. Supported values are: 'function'.")
    model_server.objects = lambda raw: refused if b'"custom"' in raw else None
    await reply_of(provider, replace(ASKED, messages=messages, tools=(PATCHING,)))
    body = model_server.requests[-1].body
    assert body["tools"][0]["type"] == "function"
    assert [item["type"] for item in body["input"]][1:] == ["function_call", "function_call_output"]
    await provider.aclose()


async def test_request_extends_the_previous_one_byte_for_byte(
    provider: OpenAIResponsesProvider, model_server: ModelServer
) -> None:
    model_server.script(ReplyScript(reasoning="hm", tool_calls=(Call("exec", {}, "c1"),)))
    reply = await reply_of(provider)
    await reply_of(provider, continued(reply.message, result_of("c1")))
    first, second = (request.raw for request in model_server.requests)
    assert second.startswith(first.removesuffix(b"]}"))


async def test_picture_is_sent(
    provider: OpenAIResponsesProvider, model_server: ModelServer
) -> None:
    message = Message("user", (Text("what is it?"), Image("image/png", b"\x89PNG")))
    await reply_of(provider, ModelRequest("fake", "", (message,)))
    picture, text = model_server.requests[0].body["input"][0]["content"]
    assert picture == {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="}
    assert text == {"type": "input_text", "text": "what is it?"}


async def test_reasoning_of_another_account_is_dropped_after_a_rejection(
    provider: OpenAIResponsesProvider, model_server: ModelServer
) -> None:
    signature = json.dumps({"responses_reasoning": {"id": "rs_1", "encrypted_content": "foreign"}})
    earlier = Message("assistant", (Thinking("hm", signature), Text("Yes.")))
    fallback = CapabilityFallback(provider)
    reply = await reply_of(fallback, continued(earlier, user("and now?")))
    assert reply.message.text == "echo: and now?"
    refused, sent = (request.body["input"] for request in model_server.requests)
    assert [item["type"] for item in refused] == ["message", "reasoning", "message", "message"]
    assert [item["type"] for item in sent] == ["message", "message", "message"]


async def test_thinking_of_other_vendors_is_not_sent(
    provider: OpenAIResponsesProvider, model_server: ModelServer
) -> None:
    other_vendor = Message("assistant", (Thinking("hm", "EqQBCg"), Text("Yes.")))
    model_server.script("first")
    await reply_of(provider, continued(other_vendor, user("and now?")))
    types = [item["type"] for item in model_server.requests[0].body["input"]]
    assert types == ["message", "message", "message"]


async def test_encrypted_reasoning_is_dropped_if_unsupported(
    provider: OpenAIResponsesProvider, model_server: ModelServer
) -> None:
    objection = refusal(400, "Encrypted content is not supported with this model.")
    model_server.script(objection, "one", "two")
    assert (await reply_of(provider)).message.text == "one"
    assert (await reply_of(provider)).message.text == "two"
    assert ["include" in request.body for request in model_server.requests] == [True, False, False]
    model_server.script(objection)
    with pytest.raises(NoEncryptedReasoning):
        await reply_of(provider)


@pytest.mark.parametrize(
    ("reason", "expected"), [("length", "length"), ("content_filter", FILTERED)]
)
async def test_incomplete_reply_has_its_reason(
    provider: OpenAIResponsesProvider, model_server: ModelServer, reason: str, expected: str
) -> None:
    model_server.script(ReplyScript(text="It begins", finish_reason=reason))
    reply = await reply_of(provider)
    assert (reply.message.text, reply.finish_reason) == ("It begins", expected)


async def test_error_event_is_raised(
    provider: OpenAIResponsesProvider, model_server: ModelServer
) -> None:
    model_server.script(ReplyScript(text="x", breaks=Break("error", 3)))
    with pytest.raises(Unavailable, match="Overloaded"):
        await reply_of(provider)


def built(*payloads: dict[str, Any]) -> Reply:
    builder = ResponsesResponseBuilder(lambda: 1)
    for payload in payloads:
        list(builder.add(payload))
    *_, reply = builder.finish(done=True)
    assert isinstance(reply, Reply)
    return reply


def test_unstreamed_items_are_read_at_the_end() -> None:
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
        {"type": "function_call", "call_id": "c1", "name": "exec", "arguments": '{"a": 1}'},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "def"},
        {
            "type": "message",
            "phase": "final_answer",
            "content": [{"type": "output_text", "text": "Done."}],
        },
    ]
    usage = {
        "input_tokens": 7,
        "output_tokens": 3,
        "input_tokens_details": {"cached_tokens": 5},
    }
    response = {"status": "completed", "output": output, "usage": usage}
    reply = built({"type": "response.completed", "response": response})
    assert reply.message.text == "Done."
    assert reply.message.tool_calls == (ToolCall("c1", "exec", {"a": 1}, '{"a": 1}'),)
    assert [type(part) for part in reply.message.content] == [
        Thinking,
        ToolCallMarker,
        Thinking,
        Thinking,
        Text,
    ]
    assert reply.finish_reason == "tool_calls"
    assert reply.usage is not None
    assert (reply.usage.input, reply.usage.output, reply.usage.cached) == (7, 3, 5)


def message_item(text: str) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def completed(*output: dict[str, Any]) -> dict[str, Any]:
    response = {"status": "completed", "output": list(output)}
    return {"type": "response.completed", "response": response}


def test_thinking_without_an_opening_tag_is_separated() -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "I think.\n</th"}
    reply = built(delta, completed(message_item("I think.\n</think>\n\nYes")))
    assert reply.message.text == "Yes"
    assert reply.message.content[0] == Thinking("I think.")
    assert reply.voids_text


def test_thinking_of_each_message_is_separated() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "exec", "arguments": "{}"}
    look, done = message_item("hm\n</think>\nI look."), message_item("ah\n</think>\nDone.")
    reply = built(completed(look, call, done))
    texts = [part.text for part in reply.message.content if isinstance(part, Text)]
    assert texts == ["I look.", "Done."]


def test_closing_tag_is_text_if_the_server_separates_thinking() -> None:
    summary = [{"type": "summary_text", "text": "hm"}]
    text = "The tag is\n</think>\nand nothing else."
    reply = built(completed({"type": "reasoning", "summary": summary}, message_item(text)))
    assert reply.message.text == text
    assert not reply.voids_text


def test_refusal_is_not_success() -> None:
    reply = built(
        {"type": "response.refusal.delta", "output_index": 0, "delta": "I cannot help."},
        {"type": "response.completed", "response": {"status": "completed"}},
    )
    assert (reply.message.text, reply.finish_reason) == ("I cannot help.", FILTERED)


def test_stream_without_an_end_is_truncated() -> None:
    with pytest.raises(Unavailable):
        built({"type": "response.output_text.delta", "output_index": 0, "delta": "It"})


@pytest.fixture
async def choice(model_server: ModelServer) -> AsyncIterator[OpenAIApiChoice]:
    chat = OpenAICompatibleProvider(Endpoint("openai", model_server.base_url))
    endpoint = Endpoint("openai", model_server.base_url, path=PATH)
    choice = OpenAIApiChoice(chat, lambda: OpenAIResponsesProvider(endpoint))
    yield choice
    await choice.aclose()


async def test_responses_api_is_used_after_a_rejection(
    choice: OpenAIApiChoice, model_server: ModelServer
) -> None:
    model_server.script(NEEDS_RESPONSES, "one", "two")
    assert (await reply_of(choice)).message.text == "one"
    assert (await reply_of(choice)).message.text == "two"
    assert ["input" in request.body for request in model_server.requests] == [False, True, True]


async def test_server_without_the_responses_api_gets_no_reasoning(
    choice: OpenAIApiChoice, model_server: ModelServer
) -> None:
    model_server.script(NEEDS_RESPONSES, refusal(404, "no such address"), "one", "two")
    model_request = ModelRequest(
        "fake", "", (user("hi"),), TOOLS, options={"reasoning_effort": "high"}
    )
    events = await events_of(choice, model_request)
    assert isinstance(events[0], Notice)
    assert (await reply_of(choice, model_request)).message.text == "two"
    bodies = [request.body for request in model_server.requests]
    assert ["input" in body for body in bodies] == [False, True, False, False]
    assert [body.get("reasoning_effort") for body in bodies[2:]] == ["none", "none"]


async def test_unrecoverable_rejection_is_raised(
    choice: OpenAIApiChoice, model_server: ModelServer
) -> None:
    model_server.script(NEEDS_RESPONSES, refusal(404, "no such address"), NEEDS_RESPONSES)
    with pytest.raises(Rejected, match="Function tools"):
        await reply_of(choice)


@pytest.mark.parametrize(
    ("config", "by_responses"),
    [
        (ModelConfig("m", "openai/fake"), True),
        (ModelConfig("m", "openai/fake", api="chat"), False),
        (ModelConfig("m", "groq/fake"), False),
        (ModelConfig("m", "groq/fake", api="responses"), True),
    ],
)
async def test_each_vendor_uses_its_preferred_api(
    model_server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    config: ModelConfig,
    by_responses: bool,
) -> None:
    table = {
        name: replace(vendor, api_base=model_server.base_url)
        for name, vendor in vendors.VENDORS.items()
    }
    monkeypatch.setattr(vendors, "VENDORS", table)
    environ = {"OPENAI_API_KEY": "k", "GROQ_API_KEY": "k"}
    provider = open_provider(resolve_model("m", [config], environ))
    await reply_of(provider)
    await provider.aclose()
    assert ("input" in model_server.requests[0].body) == by_responses


def test_silence_between_messages_is_described() -> None:
    body = json.loads(ResponsesRequestEncoder().body(continued(assistant(""), user("go on"))))
    assert all(item["content"] for item in body["input"])
