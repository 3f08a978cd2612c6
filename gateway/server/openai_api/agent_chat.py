"""A chat completion by Kore's agent."""

from contextlib import aclosing
from typing import Any

from aiohttp import web

from agent import events
from agent.errors import KoreError
from agent.types import Result
from gateway.core.records import MessageStored
from gateway.server.openai_api.agent_answer import (
    AgentAnswer,
    ReplyWords,
    TurnEnd,
    answer_text,
    check_end,
)
from gateway.server.openai_api.chat_answer import ChatAnswer
from gateway.server.openai_api.errors import error_body
from gateway.server.openai_api.server_sent_events import ServerSentEvents, has_left

_FINISH = {"max_iterations": "length", "limit": "length", "filtered": "content_filter"}


def whole_answer(end: TurnEnd, answer: ChatAnswer, token: str) -> dict[str, Any]:
    message = {"content": answer_text(end, token)}
    return answer.whole(message, finish_of(end.result), end.outcome.usage)


async def end_of(turn: AgentAnswer, request: web.Request) -> TurnEnd:
    """Raises `KoreError` where there is no answer, `ConnectionError` once the client has left."""
    async with aclosing(turn.follow()) as following:
        async for event in following:
            if isinstance(event, TurnEnd):
                check_end(event)
                return event
            if has_left(request):
                raise ConnectionResetError("the client has left")
    raise AssertionError("a turn ends or fails")


async def streamed_answer(
    turn: AgentAnswer,
    answer: ChatAnswer,
    stream: ServerSentEvents,
    token: str,
    *,
    usage: bool,
) -> str | None:
    """What was said; None for a turn that failed, which the client is told."""
    deltas = TextDeltas()
    await stream.send(answer.chunk({"role": "assistant", "content": ""}))
    try:
        async with aclosing(turn.follow()) as following:
            async for event in following:
                if isinstance(event, TurnEnd):
                    break
                if text := deltas.of(event):
                    await stream.send(answer.chunk({"content": text}))
                elif event is None:
                    await stream.keep_alive()
        assert isinstance(event, TurnEnd)
        check_end(event)
    except KoreError as exc:
        await stream.send(error_body(exc))
        return None
    rest = event.unsent(deltas.text, token)
    if rest:
        await stream.send(answer.chunk({"content": rest}))
    await stream.send(answer.chunk({}, finish_of(event.result)))
    if usage:
        await stream.send(answer.usage_chunk(event.outcome.usage))
    return deltas.text + rest


class TextDeltas:
    """The words of a turn as they come; of each reply a paragraph of its own."""

    def __init__(self) -> None:
        self.text = ""
        self._is_paragraph = False
        self._reply = ReplyWords()

    def of(self, event: object) -> str:
        match event:
            case events.IterationStart():
                self._is_paragraph = bool(self.text)
            case events.Retry():
                self._reply.begin_again()
                self._is_paragraph = bool(self.text)
            case events.TextDelta(text) if text:
                self._reply.add(text)
                return self._add(text)
            case MessageStored(message=message):
                words = self._add(self._reply.missing(message))
                self._is_paragraph = bool(self.text)
                return words
        return ""

    def _add(self, text: str) -> str:
        words = f"\n\n{text}" if text and self._is_paragraph else text
        self._is_paragraph &= not text
        self.text += words
        return words


def finish_of(result: Result | None) -> str:
    """As OpenAI names the end of a reply."""
    return _FINISH.get(result.stopped or "", "stop") if result is not None else "stop"
