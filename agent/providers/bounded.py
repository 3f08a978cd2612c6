"""Bounds of requests and replies: the model's window, and a tail that repeats itself."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

from agent.errors import ContextTooLong, Unavailable
from agent.events import (
    REPEATING,
    ModelEvent,
    Notice,
    Reply,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent.i18n import t
from agent.providers.base import ClosingProvider, ModelRequest
from agent.providers.optional_parts import HasOptionalFields
from agent.providers.server_window import ModelWindow
from agent.providers.token_estimate import estimate_all, estimate_text, estimate_tool
from agent.providers.tool_calls import parse_tool_call
from agent.types import Message, Part, Text, Thinking

# Smaller windows do not exist, so smaller requests need none.
_LEAST_WINDOW_TOKENS = 2_000
# Limit of a reply if the model's window is unknown.
UNKNOWN_WINDOW_TOKENS = 16_000
# Share of a known window that a reply may fill even if the request seems to leave less.
_LEAST_SHARE = 0.2

# Half of a text, and at least this length, that repeats a text of at most the period's length
# never ends. Tables and drawings repeat themselves, too, but are shorter.
LEAST_REPETITION_CHARS = 24_000
_MAX_PERIOD_CHARS = 1_600
# Text between two checks, and the beginning by which a repetition is searched.
_CHECK_CHARS = 2_000
_PROBE_CHARS = 32


class BoundedProvider:
    """Provider wrapper that keeps requests and replies within the model's `window`.

    A reply ends when it has filled the rest of the window, or 16,000 tokens if the window is
    unknown, or when the second half of its text and thinking, at least 24,000 characters, repeats
    a text of at most 1,600 characters. Arguments of calls may repeat anything: files can be blank.
    The last event is then a `Reply` with all that has arrived, whose finish reason is "length" or
    `REPEATING`. The request is not repeated, because it would most likely end the same way.

    The window of a server that can be asked for it is known from the first longer request on.
    Raises `ContextTooLong` instead of sending a request that exceeds a window stated by the server,
    because some servers break the connection, and others cut the request without saying so.
    """

    def __init__(self, provider: ClosingProvider, window: ModelWindow) -> None:
        self._provider = provider
        self._window = window

    @property
    def name(self) -> str:
        return self._provider.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        window, size = self._window, request_tokens(request)
        if size >= _LEAST_WINDOW_TOKENS:
            await window.ask()
            await self._check(request, size)
        limit = reply_limit(request, window.tokens if window.is_known else None)
        advice = None if window.is_known else _advice(request, limit)
        has_begun = False
        try:
            async with aclosing(
                bound_reply(self._provider.stream(request), limit, advice)
            ) as events:
                async for event in events:
                    has_begun = True
                    if isinstance(event, Reply):
                        window.note_reply()
                    yield event
        except Unavailable as exc:
            if not has_begun and size >= _LEAST_WINDOW_TOKENS and window.may_be_smaller:
                await window.ask(again=True)
                await self._check(request, size)
                exc.hint = exc.hint or t(
                    "The request had about {n:,} tokens. If the window of the server is smaller, "
                    "set context_tokens of the model.",
                    n=size,
                )
            raise

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""
        if isinstance(self._provider, HasOptionalFields):
            return self._provider.optional_fields(request)
        return set()

    async def aclose(self) -> None:
        await self._provider.aclose()

    async def _check(self, request: ModelRequest, size: int) -> None:
        """Raise `ContextTooLong` for a request that exceeds a window stated by the server."""
        if not self._window.is_stated or size <= self._window.tokens:
            return
        # The server may have been started again with a larger window.
        await self._window.ask(again=True)
        if size <= self._window.tokens:
            return
        raise ContextTooLong(
            t(
                "the conversation is too long for the context window of {vendor}/{model}{said}",
                vendor=self.name,
                model=request.model,
                said=t(": {n:,} tokens, as its server states", n=self._window.tokens),
            ),
            hint=t("Start the server with a larger window."),
        )


def reply_limit(request: ModelRequest, window: int | None) -> int:
    """Return the limit of a reply in tokens; `window` is None if unknown."""
    if window is None:
        return max(UNKNOWN_WINDOW_TOKENS, request.max_tokens or 0)
    return max(window - request_tokens(request), int(window * _LEAST_SHARE))


def request_tokens(request: ModelRequest) -> int:
    """Estimate the tokens of a request."""
    tools = sum(map(estimate_tool, request.tools))
    return estimate_text(request.system) + tools + estimate_all(request.messages)


def _advice(request: ModelRequest, limit: int) -> Notice:
    return Notice(
        "warning",
        t(
            "The window of {model} is unknown, so its reply ended at about {n:,} tokens. Set "
            "context_tokens of the model to allow longer replies.",
            model=request.model,
            n=limit,
        ),
    )


async def bound_reply(
    stream: AsyncIterator[ModelEvent], limit_tokens: int, advice: Notice | None = None
) -> AsyncGenerator[ModelEvent]:
    """Yield the events of a reply, and end it at the limit or when it repeats itself.

    `advice` precedes a reply that ended at the limit.
    """
    received = _ReceivedReply(limit_tokens)
    # Providers are async generators; closing one ends its connection at once.
    async with aclosing(cast(AsyncGenerator[ModelEvent], stream)) as events:
        async for event in events:
            yield event
            if (reason := received.add(event)) is not None:
                break
        else:
            return
    if advice is not None and reason == "length":
        yield advice
    yield received.reply(reason)


class _ReceivedReply:
    """Streamed parts of a reply."""

    def __init__(self, limit_tokens: int) -> None:
        self._limit = limit_tokens
        self._text: list[str] = []
        self._thinking: list[str] = []
        # Names and pieces of arguments, by the id of the call.
        self._calls: dict[str, tuple[str, list[str]]] = {}
        self._unchecked: list[str] = []
        self._unchecked_chars = 0
        # Text and thinking in the order of their arrival, without what is unchecked.
        self._prose = ""
        self._new_prose: list[str] = []
        self._tokens = 0

    def add(self, event: ModelEvent) -> str | None:
        """Add an event; return the reason if the reply must end here."""
        match event:
            case TextDelta(text):
                self._text.append(text)
                self._new_prose.append(text)
            case ThinkingDelta(text):
                self._thinking.append(text)
                self._new_prose.append(text)
            case ToolCallDelta(call_id, name, text):
                is_new = call_id not in self._calls
                _, pieces = self._calls.get(call_id, ("", []))
                pieces.append(text)
                self._calls[call_id] = (name, pieces)
                # A name counts as well: a reply may consist of calls without arguments.
                text = name * is_new + text
            case _:
                return None
        self._unchecked.append(text)
        self._unchecked_chars += len(text)
        return self._check() if self._unchecked_chars >= _CHECK_CHARS else None

    def reply(self, reason: str) -> Reply:
        """Return what has arrived; a call whose arguments are incomplete has none."""
        content: list[Part] = []
        if thinking := "".join(self._thinking):
            content.append(Thinking(thinking))
        if text := "".join(self._text):
            content.append(Text(text))
        calls = tuple(
            parse_tool_call(call_id, name, "".join(pieces), cut=True)
            for call_id, (name, pieces) in self._calls.items()
        )
        return Reply(Message("assistant", tuple(content), calls), None, reason)

    def _check(self) -> str | None:
        new = "".join(self._unchecked)
        self._unchecked, self._unchecked_chars = [], 0
        self._tokens += estimate_text(new)
        if self._new_prose:
            self._prose += "".join(self._new_prose)
            self._new_prose = []
            length = max(LEAST_REPETITION_CHARS, len(self._prose) // 2)
            if len(self._prose) >= length and _is_periodic(self._prose[-length:]):
                return REPEATING
        return "length" if self._tokens > self._limit else None


def _is_periodic(text: str) -> bool:
    """Return whether a text consists of repetitions of a short text."""
    probe = text[:_PROBE_CHARS]
    end = _MAX_PERIOD_CHARS + _PROBE_CHARS
    period = text.find(probe, 1, end)
    while period > 0:
        if text.startswith(text[period:]):
            return True
        period = text.find(probe, period + 1, end)
    return False
