"""Answer stream for both Kore's agent and a bare model.

`write_turn` and `write_reply` follow the answer and write it to the `AnswerWriter` of an API;
`respond` sends the writer's output.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, Protocol

from aiohttp import web

from agent import events
from agent.errors import KoreError
from agent.records import frozen
from agent.security.policy.base import options_for
from agent.serialization import dumps
from agent.types import Result, ToolCall, Usage
from gateway.core.records import MessageStored
from gateway.server.openai_api.agent_answer import (
    AgentAnswer,
    ReplyWords,
    TurnEnd,
    answer_text,
    check_end,
)
from gateway.server.openai_api.model_reply import ModelAnswer, Piece
from gateway.server.openai_api.server_sent_events import ServerSentEvents, has_left

_FINISH = {"max_iterations": "length", "limit": "length", "filtered": "content_filter"}
_MAX_RESULT_CHARS = 10_000

Steps = AsyncGenerator[TurnEnd | ModelAnswer | None, None]


@frozen
class AnswerEnd:
    """End of an answer, with its whole text.

    `finish` is OpenAI's name for the reason; `at` is in Unix seconds, None for now.
    """

    text: str | None
    finish: str
    usage: Usage
    calls: tuple[ToolCall, ...] = ()
    at: float | None = None


class AnswerWriter(Protocol):
    """Writer of an answer as JSON in the format of one API, as a whole and as events."""

    @property
    def text(self) -> str:
        """Text that the client has received so far."""
        ...

    def begin(self) -> None: ...

    def add_text(self, text: str) -> None:
        """Add text to the open message, or start a message with it."""
        ...

    def end_message(self) -> None:
        """Start another message with the next text."""
        ...

    def add_rest(self, text: str) -> None:
        """Add the text that the client still lacks at the end of a turn."""
        ...

    def add_call(self, call_id: str, name: str, piece: str) -> None:
        """Add a piece of the arguments of a function call."""
        ...

    def add_item(self, item: Mapping[str, Any], prefix: str) -> int:
        """Add one of Kore's own items and return its index."""
        ...

    def end_item(self, index: int, changes: Mapping[str, Any]) -> None: ...

    def complete(self, end: AnswerEnd) -> None: ...

    def fail(self, error: KoreError) -> None: ...

    def take(self) -> list[dict[str, Any]]:
        """Return the events since the last call."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """Return the current answer, for a client that does not stream."""
        ...


async def write_turn(
    turn: AgentAnswer, writer: AnswerWriter, token: str
) -> AsyncGenerator[TurnEnd | None, None]:
    """Write a turn of the agent. Yield None after each step and finally the end.

    Raises `KoreError`.
    """
    steps = _TurnSteps(writer)
    async with aclosing(turn.follow()) as following:
        async for event in following:
            if isinstance(event, TurnEnd):
                check_end(event)
                steps.finish(event, token)
                yield event
                return
            steps.write(event)
            yield None


async def write_reply(
    reply: AsyncGenerator[Piece | ModelAnswer | None, None], writer: AnswerWriter
) -> AsyncGenerator[ModelAnswer | None, None]:
    """Write the reply of a model. Yield None after each step and finally the answer.

    Raises `KoreError`.
    """
    async with aclosing(reply) as pieces:
        async for piece in pieces:
            match piece:
                case events.TextDelta(text) if text:
                    writer.add_text(text)
                case events.ToolCallDelta(call_id, name, part):
                    writer.add_call(call_id, name, part)
                case ModelAnswer(text, calls, finish, usage, at):
                    writer.complete(AnswerEnd(text or None, finish, usage, calls, at))
                    yield piece
                    return
            yield None


async def respond(
    request: web.Request,
    writer: AnswerWriter,
    steps: Steps,
    headers: Mapping[str, str],
    *,
    is_stream: bool,
) -> tuple[web.StreamResponse, TurnEnd | ModelAnswer | KoreError | None]:
    """Send an answer step by step or as a whole; return the response and the end of the answer.

    The end is None if the client has disconnected. Raises `KoreError` for an answer that is not
    streamed.
    """
    end: TurnEnd | ModelAnswer | KoreError | None = None
    if not is_stream:
        async for step in steps:
            if has_left(request):
                return web.Response(status=499), None
            end = step
        return web.json_response(writer.snapshot(), headers=headers, dumps=dumps), end
    stream = ServerSentEvents(request, headers)
    try:
        async with stream:
            writer.begin()
            await _send(stream, writer)
            try:
                async for step in steps:
                    end = step
                    await _send(stream, writer)
            except KoreError as exc:
                end = exc
                writer.fail(exc)
                await _send(stream, writer)
    except ConnectionError:
        return stream.response, None
    return stream.response, end


async def _send(stream: ServerSentEvents, writer: AnswerWriter) -> None:
    news = writer.take()
    for event in news:
        await stream.send(event, event.get("type", ""))
    if not news:
        await stream.keep_alive()


class _TurnSteps:
    """Open calls and questions of a turn."""

    def __init__(self, writer: AnswerWriter) -> None:
        self._writer = writer
        self._calls: dict[str, int] = {}
        self._questions: dict[str, int] = {}
        self._reply = ReplyWords()

    def write(self, event: object) -> None:
        writer = self._writer
        match event:
            case events.TextDelta(text) if text:
                self._reply.add(text)
                writer.add_text(text)
            case MessageStored(message=message):
                if words := self._reply.missing(message):
                    writer.add_text(words)
                if message.role == "assistant":
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
                changes = {"output": event.content[:_MAX_RESULT_CHARS], "is_error": event.is_error}
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
        writer.add_rest(end.unsent(writer.text, token))
        text, finish = answer_text(end, token), _finish_of(end.result)
        writer.complete(AnswerEnd(text, finish, end.outcome.usage))


def _finish_of(result: Result | None) -> str:
    return _FINISH.get(result.stopped or "", "stop") if result is not None else "stop"


def _item(kind: str, tool: str, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": "in_progress", "name": tool, "arguments": arguments, **more}
