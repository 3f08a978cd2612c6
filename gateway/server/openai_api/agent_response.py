"""A response by Kore's agent: its words as messages, its calls and questions as `kore:` items."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from agent import events
from agent.security.policy.base import options_for
from gateway.core.records import MessageStored
from gateway.server.openai_api.agent_answer import (
    AgentAnswer,
    ReplyWords,
    TurnEnd,
    check_end,
)
from gateway.server.openai_api.agent_chat import finish_of
from gateway.server.openai_api.response_writer import ResponseWriter

_RESULT_CHARS = 10_000


async def write_turn(
    turn: AgentAnswer, writer: ResponseWriter, token: str
) -> AsyncGenerator[TurnEnd | None, None]:
    """Follows the turn to its end, which comes as the last; None after each step. Raises
    `KoreError`."""
    steps = _Steps(writer)
    async with aclosing(turn.follow()) as following:
        async for event in following:
            if isinstance(event, TurnEnd):
                check_end(event)
                steps.finish(event, token)
                yield event
                return
            steps.write(event)
            yield None


class _Steps:
    """Which items are open."""

    def __init__(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._calls: dict[str, int] = {}
        self._questions: dict[str, int] = {}
        self._text = ""
        self._reply = ReplyWords()

    def write(self, event: object) -> None:
        writer = self._writer
        match event:
            case events.TextDelta(text) if text:
                self._reply.add(text)
                self._text += text
                writer.add_text(text)
            case MessageStored(message=message):
                if words := self._reply.missing(message):
                    self._text += words
                    writer.add_text(words)
                    writer.end_message()
            case events.Retry():
                self._reply.begin_again()
                writer.end_message()
            case events.IterationStart():
                writer.end_message()
            case events.ToolStart(call_id, name, arguments):
                writer.end_message()
                item = _item("kore:tool_call", name, arguments, call_id=call_id)
                self._calls[call_id] = writer.add_item(item, "kore")
            case events.ToolResulted() if event.id in self._calls:
                changes = {"output": event.content[:_RESULT_CHARS], "is_error": event.is_error}
                writer.end_item(self._calls.pop(event.id), changes)
            case events.ApprovalAsked(_, request):
                writer.end_message()
                more = {
                    "nonce": event.nonce,
                    "reason": request.reason,
                    "answers": [
                        option.answer for option in options_for(request) if option.scope != "prefix"
                    ],
                    "view": asdict(event.view),
                }
                item = _item("kore:approval", request.tool, request.arguments, **more)
                self._questions[event.nonce] = writer.add_item(item, "kore")
            case events.ApprovalAnswered() if event.nonce in self._questions:
                writer.end_item(self._questions.pop(event.nonce), {"answer": event.answer})

    def finish(self, end: TurnEnd, token: str) -> None:
        writer = self._writer
        writer.end_message()
        for index in (*self._calls.values(), *self._questions.values()):
            writer.end_item(index, {"status": "incomplete"})
        if rest := end.unsent(self._text, token).strip():
            writer.add_text(rest)
        writer.complete(end.outcome.usage, finish_of(end.result))


def _item(kind: str, tool: str, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": "in_progress", "name": tool, "arguments": arguments, **more}
