"""Reply of a bare model, streamed and as a whole."""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Literal

from agent import events
from agent.i18n import t
from agent.records import frozen
from agent.serialization import event_from_json, message_from_json
from agent.types import ToolCall, Usage
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.core.records import ModelCall
from gateway.server.openai_api.agent_answer import CHECK_INTERVAL_S, ticked
from gateway.server.openai_api.errors import ApiError

Finish = Literal["stop", "length", "tool_calls", "content_filter"]


@frozen
class ModelAnswer:
    """Complete reply."""

    text: str
    calls: tuple[ToolCall, ...]
    finish: Finish
    usage: Usage
    # Unix time in seconds.
    at: float


# Streamed parts of a reply.
Piece = events.TextDelta | events.ThinkingDelta | events.ToolCallDelta


async def model_reply(
    service: Service, call: ModelCall, *, is_stream: bool
) -> AsyncGenerator[Piece | ModelAnswer | None, None]:
    """Yield the pieces of a reply, then the whole reply; yield None while nothing happens.

    Without `is_stream`, all pieces arrive at the end, so that a reply may fail and be repeated.
    Raises `KoreError`.
    """
    text, streamed_calls = "", set[str]()
    async with service.call_model(call) as items, aclosing(ticked(items, CHECK_INTERVAL_S)) as news:
        async for item in news:
            if item is not None and item["type"] == events.Reply.type:
                answer = _answer(item)
                if rest := answer.text.removeprefix(text):
                    yield events.TextDelta(rest)
                for tool_call in answer.calls:
                    if tool_call.id not in streamed_calls:
                        yield events.ToolCallDelta(tool_call.id, tool_call.name, tool_call.raw)
                yield answer
                return
            event = event_from_json(item) if item is not None and is_stream else None
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
                    # Words that were already passed on cannot be withdrawn.
                    words = t("the model's reply broke off: {reason}", reason=reason)
                    raise ApiError(502, words, "reply_broke_off")
    raise ConnectionLost(t("Kore is no longer running"))


def _answer(item: Mapping[str, Any]) -> ModelAnswer:
    message = message_from_json(item["message"])
    finish: Finish = "stop"
    if message.tool_calls:
        finish = "tool_calls"
    elif item["finish_reason"] in events.CUT:
        finish = "length"
    elif item["finish_reason"] == events.FILTERED:
        finish = "content_filter"
    return ModelAnswer(
        message.text, message.tool_calls, finish, Usage(**item["usage"]), time.time()
    )
