"""A bare model, called by its name: what is asked of it, and what it says."""

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from agent import events
from agent.errors import KoreError
from agent.i18n import t
from agent.providers.model_settings import ModelSettings
from agent.records import frozen
from agent.serialization import event_from_json, message_from_json
from agent.types import ToolCall, Usage
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.core.records import ModelCall, ModelTool
from gateway.server.openai_api.agent_answer import TICK_S, ticked
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.errors import ApiError, bad_field
from gateway.server.openai_api.fields import objects_field

Finish = Literal["stop", "length", "tool_calls", "content_filter"]


@frozen
class ModelAnswer:
    """The whole reply."""

    text: str
    calls: tuple[ToolCall, ...]
    finish: Finish
    usage: Usage
    # Unix time in seconds.
    at: float


# What streams of a reply.
Piece = events.TextDelta | events.ThinkingDelta | events.ToolCallDelta


def model_call(
    model: str,
    conversation: ClientConversation,
    tools: Sequence[ModelTool],
    settings: ModelSettings,
) -> ModelCall:
    return ModelCall(
        model,
        conversation.system,
        conversation.messages,
        tuple(tools),
        settings.temperature,
        settings.max_tokens,
        settings.options(),
    )


def read_tools(body: Mapping[str, Any]) -> list[ModelTool]:
    """Functions in the form of either API. Raises `ApiError`."""
    tools = []
    for number, one in enumerate(objects_field(body, "tools")):
        function = one.get("function", one)
        match one.get("type"), function:
            case "function", {"name": str(name)}:
                description = str(function.get("description") or "")
                parameters = function.get("parameters") or {"type": "object", "properties": {}}
                if not isinstance(parameters, dict):
                    raise bad_field(f"tools[{number}].parameters", "a JSON schema")
                tools.append(ModelTool(name, description, parameters))
            case _:
                raise bad_field(f"tools[{number}]", "a function with a name")
    return tools


def read_tool_choice(body: Mapping[str, Any]) -> str | None:
    """As `ModelSettings` has it. Raises `ApiError`."""
    match body.get("tool_choice"):
        case None:
            return None
        case str(choice) if choice in ("auto", "none", "required"):
            return choice
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case {"type": "function", "name": str(name)}:
            return name
    raise bad_field("tool_choice", "auto, none, required or a function")


async def model_reply(
    service: Service, call: ModelCall
) -> AsyncGenerator[Piece | ModelAnswer | None, None]:
    """What the model says as it comes, then the whole; None when nothing happens. What did not
    stream comes before the end. Raises `KoreError`."""
    text, streamed_calls = "", set[str]()
    async with service.call_model(call) as items, aclosing(ticked(items, TICK_S)) as news:
        async for item in news:
            if item is not None and item["type"] == events.Reply.type:
                answer = _answer(item)
                if rest := answer.text.removeprefix(text):
                    yield events.TextDelta(rest)
                for one in answer.calls:
                    if one.id not in streamed_calls:
                        yield events.ToolCallDelta(one.id, one.name, one.raw)
                yield answer
                return
            event = event_from_json(item) if item is not None else None
            match event:
                case events.TextDelta(piece):
                    text += piece
                    yield event
                case events.ToolCallDelta(call_id):
                    streamed_calls.add(call_id)
                    yield event
                case events.ThinkingDelta() | None:
                    yield event
                case events.Retry(reason) if text or streamed_calls:
                    # What was passed on cannot be taken back.
                    words = t("the model's reply broke off: {reason}", reason=reason)
                    raise ApiError(502, words, "reply_broke_off")
    raise ConnectionLost(t("Kore is no longer running"))


async def whole_reply(service: Service, call: ModelCall) -> ModelAnswer:
    """Raises `KoreError`."""
    async with service.call_model(call) as items:
        async for item in items:
            if item["type"] == events.Reply.type:
                return _answer(item)
    raise ConnectionLost(t("Kore is no longer running"))


def settings_of(**values: Any) -> ModelSettings:
    """Raises `ApiError` for a value that no model takes."""
    try:
        return ModelSettings(**values)
    except KoreError as exc:
        raise ApiError(400, str(exc)) from exc


def _answer(item: Mapping[str, Any]) -> ModelAnswer:
    message = message_from_json(item["message"])
    finish: Finish = "stop"
    if message.tool_calls:
        finish = "tool_calls"
    elif item["finish_reason"] in ("length", "content_filter"):
        finish = item["finish_reason"]
    return ModelAnswer(
        message.text, message.tool_calls, finish, Usage(**item["usage"]), time.time()
    )
