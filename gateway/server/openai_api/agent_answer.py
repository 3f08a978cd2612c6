"""Tracking of a message to Kore's agent until it is answered.

The state on disk is authoritative: `message_outcome` returns whether the message was accepted, is
running or is answered. Events only deliver the text earlier.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import TypeVar

from agent import events
from agent.i18n import t
from agent.records import frozen
from agent.types import Message, Result
from gateway.core.errors import ConnectionLost
from gateway.core.messages import Media, console_principal
from gateway.core.records import Delivered, MessageOutcome, SessionEvent, TurnStored
from gateway.server.openai_api.errors import ApiError
from gateway.server.openai_api.request_sessions import MessagePlace
from gateway.server.speaker import Speaker

T = TypeVar("T")

# After this time without an event, check the disk and whether the client has disconnected.
CHECK_INTERVAL_S = 1.0
# Number of attempts to find a new owner of the data, with a pause between them.
_MAX_TRIES = 150
_RETRY_INTERVAL_S = 0.2
_MAX_TITLE_CHARS = 80


@frozen
class AgentOrder:
    """Message for an agent, with its session."""

    place: MessagePlace
    text: str
    media: tuple[Media, ...] = ()
    agent: str | None = None


@frozen
class TurnEnd:
    """End of a turn.

    `words` is a text of Kore, `denied` names the calls that this token may not approve. `has_gap`
    means that the owner of the data was lost and earlier words may be incomplete.
    """

    outcome: MessageOutcome
    result: Result | None
    error: events.Error | None
    words: str
    denied: tuple[str, ...]
    has_gap: bool = False

    def unsent(self, sent: str, token: str) -> str:
        """Return the text that a client still lacks after it has received `sent`."""
        text = answer_text(self, token)
        if not sent:
            return text
        if self.has_gap:
            return text.removeprefix(sent) if text.startswith(sent) else f"\n\n{text}"
        note = last_words(self, token)
        return f"\n\n{note}" if note else ""


class AgentAnswer:
    """Answer of Kore's agent to one message. Questions that cannot be answered are denied."""

    def __init__(self, speaker: Speaker, order: AgentOrder) -> None:
        self._speaker = speaker
        self._service = speaker.service
        self._order = order
        self._runs = False
        self._is_told = False
        self._has_gap = False
        self._result: Result | None = None
        self._error: events.Error | None = None
        self._words: list[str] = []
        self._denied: dict[str, None] = {}

    async def follow(self) -> AsyncGenerator[SessionEvent | TurnEnd | None, None]:
        """Yield the events of the turn that answers, then a `TurnEnd`.

        Yields None while nothing happens. Continues with a new owner of the data. Raises
        `KoreError`.
        """
        tries = 0
        while True:
            try:
                async with aclosing(self._follow()) as following:
                    async for event in following:
                        tries = 0
                        yield event
                        if isinstance(event, TurnEnd):
                            return
                raise ConnectionLost(t("Kore is no longer running"))
            except ConnectionLost:
                self._has_gap, self._error = True, None
                tries += 1
                if tries > _MAX_TRIES:
                    raise
                await asyncio.sleep(_RETRY_INTERVAL_S)
                yield None

    async def stop(self) -> None:
        """Stop the turn if it runs, because no client waits for the answer any longer."""
        if self._runs:
            await self._service.stop_session(self._order.place.session)

    async def _follow(self) -> AsyncGenerator[SessionEvent | TurnEnd | None, None]:
        place, service = self._order.place, self._service
        seq = (await service.preview_session(place.session, 0, 0)).info.messages
        async with service.follow_session(place.session, seq) as watched:
            before = await service.message_outcome(place.event_id)
            # The earlier words of a running turn are not repeated; its answer arrives as a whole.
            self._is_told = before.state in ("unknown", "waiting")
            self._runs = before.state == "running"
            if before.state in ("done", "dropped"):
                yield self._end(before)
                return
            async with aclosing(ticked(watched, CHECK_INTERVAL_S)) as news:
                is_sent = before.state != "unknown"
                async for event in news:
                    if not is_sent:
                        # Send only once events are being read, because messages stored earlier
                        # cause no live events.
                        await self._send()
                        is_sent = True
                    if event is None or isinstance(event, events.SessionStart):
                        await self._look(event)
                    if self._runs and self._is_told and event is not None:
                        yield event
                    if isinstance(event, events.ApprovalAsked) and self._runs:
                        await self._answer(event)
                    self._note(event)
                    if event is None or isinstance(event, TurnStored | Delivered):
                        outcome = await service.message_outcome(place.event_id)
                        if outcome.state in ("done", "dropped"):
                            yield self._end(outcome)
                            return
                        yield None

    async def _send(self) -> None:
        order = self._order
        await self._speaker.send(
            order.place.session,
            order.text,
            order.place.event_id,
            order.media,
            order.agent or None,
        )

    async def _look(self, event: SessionEvent | None) -> None:
        """Check whether the agent is now working on our message."""
        if not self._runs:
            outcome = await self._service.message_outcome(self._order.place.event_id)
            self._runs = outcome.state != "waiting" and event is not None

    async def _answer(self, question: events.ApprovalAsked) -> None:
        if self._speaker.may_approve:
            return
        if await self._service.answer_approval(question.nonce, "deny", console_principal()):
            self._denied[_title(question)] = None

    def _note(self, event: SessionEvent | None) -> None:
        match event:
            case Delivered(text, _, event_id) if event_id == self._order.place.event_id:
                self._words.append(text)
            case events.Done(result) if self._runs:
                self._result = result
            case events.Error() if self._runs:
                self._error = event

    def _end(self, outcome: MessageOutcome) -> TurnEnd:
        words = "\n\n".join(self._words)
        return TurnEnd(
            outcome, self._result, self._error, words, tuple(self._denied), self._has_gap
        )


class ReplyWords:
    """Words of a reply as they stream.

    A late reader receives only the message once it is stored: `missing` returns the words that did
    not stream.
    """

    def __init__(self) -> None:
        self._streamed = ""

    def add(self, text: str) -> None:
        self._streamed += text

    def begin_again(self) -> None:
        self._streamed = ""

    def missing(self, message: Message) -> str:
        """Return the words of a stored message that did not stream.

        Words that stream later belong to the next message.
        """
        if message.role != "assistant":
            return ""
        streamed, self._streamed = self._streamed, ""
        return message.text[len(streamed) :] if message.text.startswith(streamed) else ""


def check_end(end: TurnEnd) -> None:
    """Raise `ApiError` for a turn without an answer."""
    if end.outcome.state == "dropped":
        raise ApiError(
            409, t("the message was dropped: {reason}", reason=end.outcome.reason), "dropped"
        )
    if end.error is not None:
        words = f"{end.error.message} ({end.error.hint})" if end.error.hint else end.error.message
        raise ApiError(502, words, end.error.code)
    if not (end.outcome.text or end.words or end.result):
        raise ApiError(502, t("the turn ended without an answer"), "no_answer")


def last_words(end: TurnEnd, token: str) -> str:
    """Return the note below the answer that lists what was not done."""
    if not end.denied:
        return ""
    titles = ", ".join(f"`{title}`" for title in end.denied)
    return t(
        "⏸ Not done, because the token {token} may not approve it: {titles}",
        token=token,
        titles=titles,
    )


def answer_text(end: TurnEnd, token: str) -> str:
    """Return the whole answer."""
    text = end.outcome.text or end.words
    return "\n\n".join(name for name in (text, last_words(end, token)) if name)


async def ticked(items: AsyncIterator[T], every_s: float) -> AsyncGenerator[T | None, None]:
    """Yield the items, and None after each interval without an item."""
    coming: asyncio.Future[T] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(items))
            done, _ = await asyncio.wait({coming}, timeout=every_s)
            if not done:
                yield None
                continue
            try:
                item = coming.result()
            except StopAsyncIteration:
                return
            finally:
                coming = None
            yield item
    finally:
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await coming


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


def _title(question: events.ApprovalAsked) -> str:
    request = question.request
    words = request.arguments.get("command") or request.arguments.get("path") or ""
    return f"{request.tool} {words}".strip().replace("`", "'")[:_MAX_TITLE_CHARS]
