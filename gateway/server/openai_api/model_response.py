"""A response by a bare model."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from agent import events
from gateway.core.records import ModelCall
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.fields import object_field
from gateway.server.openai_api.model_reply import (
    ModelAnswer,
    Piece,
    model_call,
    read_tool_choice,
    read_tools,
    settings_of,
)
from gateway.server.openai_api.response_writer import ResponseWriter

_SAME = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "parallel_tool_calls")


def response_call(
    model: str, body: Mapping[str, Any], conversation: ClientConversation
) -> ModelCall:
    """Raises `ApiError`."""
    form = object_field(object_field(body, "text"), "format")
    settings = settings_of(
        **{name: body.get(name) for name in _SAME},
        max_tokens=body.get("max_output_tokens"),
        reasoning_effort=object_field(body, "reasoning").get("effort"),
        tool_choice=read_tool_choice(body),
        extra_body=_response_format(form),
    )
    return model_call(model, conversation, read_tools(body), settings)


def _response_format(form: Mapping[str, Any]) -> dict[str, Any]:
    """As a chat completion names it."""
    if form.get("type", "text") == "text":
        return {}
    if form["type"] != "json_schema":
        return {"response_format": dict(form)}
    schema = {name: value for name, value in form.items() if name != "type"}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


async def write_reply(
    reply: AsyncGenerator[Piece | ModelAnswer | None, None], writer: ResponseWriter
) -> AsyncGenerator[ModelAnswer | None, None]:
    """Follows the reply to its end, which comes as the last; None after each step. Raises
    `KoreError`."""
    async with aclosing(reply) as pieces:
        async for piece in pieces:
            match piece:
                case events.TextDelta(text) if text:
                    writer.add_text(text)
                case events.ToolCallDelta(call_id, name, part):
                    writer.add_call(call_id, name, part)
                case ModelAnswer():
                    writer.end_message()
                    for one in piece.calls:
                        writer.end_call(one)
                    writer.complete(piece.usage, piece.finish, piece.at)
                    yield piece
                    return
            yield None
