"""A chat completion by a bare model."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from agent import events
from agent.errors import KoreError
from agent.types import ToolCall
from gateway.core.records import ModelCall
from gateway.server.openai_api.chat_answer import ChatAnswer
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.errors import error_body
from gateway.server.openai_api.fields import object_field
from gateway.server.openai_api.model_reply import (
    ModelAnswer,
    Piece,
    model_call,
    read_tool_choice,
    read_tools,
    settings_of,
)
from gateway.server.openai_api.server_sent_events import ServerSentEvents

# Settings of the same name in both.
_SAME = (
    "temperature",
    "top_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "parallel_tool_calls",
    "reasoning_effort",
)


def call_of(model: str, body: Mapping[str, Any], conversation: ClientConversation) -> ModelCall:
    """Raises `ApiError`."""
    stop, extra = body.get("stop"), object_field(body, "response_format")
    settings = settings_of(
        **{name: body.get(name) for name in _SAME},
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        stop_sequences=[stop] if isinstance(stop, str) else stop,
        tool_choice=read_tool_choice(body),
        extra_body={"response_format": extra} if extra else {},
    )
    return model_call(model, conversation, read_tools(body), settings)


def whole_completion(reply: ModelAnswer, answer: ChatAnswer) -> dict[str, Any]:
    message: dict[str, Any] = {"content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = _calls(reply.calls)
    return answer.whole(message, reply.finish, reply.usage)


async def stream_completion(
    pieces: AsyncIterator[Piece | ModelAnswer | None],
    answer: ChatAnswer,
    stream: ServerSentEvents,
    *,
    usage: bool,
) -> None:
    """A reply that fails is told as an error in the stream."""
    numbers: dict[str, int] = {}
    await stream.send(answer.chunk({"role": "assistant", "content": ""}))
    try:
        async for piece in pieces:
            match piece:
                case None:
                    await stream.keep_alive()
                case events.TextDelta(text):
                    await stream.send(answer.chunk({"content": text}))
                case events.ToolCallDelta():
                    await stream.send(answer.chunk(_call_delta(piece, numbers)))
                case ModelAnswer():
                    await stream.send(answer.chunk({}, piece.finish))
                    if usage:
                        await stream.send(answer.usage_chunk(piece.usage))
    except KoreError as exc:
        await stream.send(error_body(exc))


def _call_delta(piece: events.ToolCallDelta, numbers: dict[str, int]) -> dict[str, Any]:
    """Name and id come with the first piece of a call only."""
    function = {"arguments": piece.partial_json}
    if piece.id in numbers:
        return {"tool_calls": [{"index": numbers[piece.id], "function": function}]}
    number = numbers[piece.id] = len(numbers)
    head = {"index": number, "id": piece.id, "type": "function"}
    return {"tool_calls": [{**head, "function": {"name": piece.name, **function}}]}


def _calls(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    return [
        {
            "id": one.id,
            "type": "function",
            "function": {"name": one.name, "arguments": one.raw},
        }
        for one in calls
    ]
