"""Streaming model call over HTTP, independent of the API format."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from typing import Protocol
from urllib.parse import urlsplit

from agent.errors import ProviderError, TimedOut, Unavailable
from agent.events import ModelEvent, TextDelta, ThinkingDelta, ToolCallDelta
from agent.i18n import t
from agent.providers.http import error_mapping
from agent.providers.http.json_stream import JsonObject
from agent.providers.http.private_address import SILENCE_TIMEOUT_S, leads_to_private_address
from agent.providers.http.transport import Deadlines, Endpoint, HttpResponse, Transport


def coalesce_deltas(portion: Iterable[ModelEvent]) -> Iterator[ModelEvent]:
    """Yield the events with adjacent deltas of one kind merged.

    Deltas before a `ProviderError` are yielded before it is raised.
    """
    run: list[ModelEvent] = []
    try:
        for event in portion:
            if run and not _continues(event, run[-1]):
                yield _merge(run)
                run = []
            run.append(event)
    except ProviderError:
        if run:
            yield _merge(run)
        raise
    if run:
        yield _merge(run)


def _continues(event: ModelEvent, last: ModelEvent) -> bool:
    kind = type(event)
    if kind is not type(last):
        return False
    if isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta):
        return event.id == last.id
    return kind is TextDelta or kind is ThinkingDelta


def _merge(run: Sequence[ModelEvent]) -> ModelEvent:
    """Return one delta for all events of the run."""
    last = run[-1]
    if len(run) == 1:
        return last
    match last:
        case TextDelta():
            return TextDelta("".join(map(_piece, run)))
        case ThinkingDelta(chars=chars):
            return ThinkingDelta("".join(map(_piece, run)), chars)
        case ToolCallDelta(id=call_id, name=name):
            return ToolCallDelta(call_id, name, "".join(map(_piece, run)))
    return last


def _piece(event: ModelEvent) -> str:
    match event:
        case TextDelta(text) | ThinkingDelta(text):
            return text
        case ToolCallDelta(partial_json=piece):
            return piece
    return ""


_ERROR_BODY_BYTES = 64 << 10

_DRAIN_TIMEOUT_S = 0.1


class StreamParser(Protocol):
    """Parser of JSON objects from bytes in any chunks.

    `done` is true once the server has declared the end of the stream.
    """

    done: bool

    def feed(self, chunk: bytes) -> list[JsonObject]: ...

    def close(self) -> list[JsonObject]: ...


class ResponseBuilder(Protocol):
    """Builder of a reply from the objects of a stream.

    `finish_reason` is set once the reply is complete; `finish` raises for a truncated stream.
    """

    finish_reason: str | None

    def add(self, payload: JsonObject) -> Iterator[ModelEvent]: ...

    def finish(self, *, done: bool) -> Iterator[ModelEvent]: ...


class StreamingClient:
    """Client for one endpoint, for every format: handles deadlines, refusals and broken
    connections.
    """

    def __init__(self, endpoint: Endpoint, transport: Transport, deadlines: Deadlines) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._deadlines = deadlines

    async def stream(
        self, model: str, body: bytes, reader: StreamParser, reply: ResponseBuilder
    ) -> AsyncGenerator[ModelEvent]:
        """Yield the events of one model call. Closing the iterator closes the connection."""
        if self._deadlines.looks_up:
            self._deadlines = await self._looked_up()
        async with AsyncExitStack() as stack:
            async with self._deadline(self._deadlines.first_byte_s):
                answer = await stack.enter_async_context(self._transport.post(body))
            if not 200 <= answer.status < 300:
                raise await self._refusal(model, answer)
            portions = await stack.enter_async_context(
                aclosing(self._portions(answer, reader, reply))
            )
            async for portion in portions:
                for event in coalesce_deltas(self._meaning(portion, reply, model)):
                    yield event
            # This comes before the reply, because the caller may stop iterating there, which closes
            # the connection.
            await _drain(answer)
            for event in reply.finish(done=reader.done):
                yield event

    async def aclose(self) -> None:
        """Close the connections; the next use opens new ones."""
        await self._transport.aclose()

    async def _looked_up(self) -> Deadlines:
        host = urlsplit(self._endpoint.api_base).hostname or ""
        if await leads_to_private_address(host):
            return Deadlines.patient(SILENCE_TIMEOUT_S)
        return replace(self._deadlines, looks_up=False)

    def _meaning(
        self, portion: Iterable[JsonObject], reply: ResponseBuilder, model: str
    ) -> Iterator[ModelEvent]:
        for payload in portion:
            if error := error_mapping.from_payload(self._endpoint, model, payload):
                raise error
            yield from reply.add(payload)

    async def _portions(
        self, answer: HttpResponse, reader: StreamParser, reply: ResponseBuilder
    ) -> AsyncGenerator[list[JsonObject], None]:
        """Yield the objects that each read of the connection completes."""
        wait_s = self._deadlines.first_byte_s
        while not reader.done:
            chunk = None
            # Some servers do not end a stream whose reply is complete.
            try:
                async with asyncio.timeout(wait_s):
                    chunk = await anext(answer.chunks, None)
            except TimeoutError as exc:
                if reply.finish_reason is None:
                    raise self._silent(wait_s) from exc
            except (TimedOut, Unavailable):
                if reply.finish_reason is None:
                    raise
            if portion := reader.close() if chunk is None else reader.feed(chunk):
                yield portion
            if chunk is None:
                return
            wait_s = self._deadlines.settle_s if reply.finish_reason else self._deadlines.idle_s

    async def _refusal(self, model: str, answer: HttpResponse) -> ProviderError:
        body = b""
        try:
            async with self._deadline(self._deadlines.idle_s):
                async for chunk in answer.chunks:
                    body += chunk
                    if len(body) > _ERROR_BODY_BYTES:
                        break
        except (TimedOut, Unavailable):
            pass  # the status is sufficient
        return error_mapping.error_from_response(
            self._endpoint, model, answer.status, answer.headers, body
        )

    @asynccontextmanager
    async def _deadline(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as exc:
            raise self._silent(seconds) from exc

    def _silent(self, seconds: float) -> TimedOut:
        error = TimedOut(
            t(
                "{vendor} sent nothing for {seconds:g} seconds",
                vendor=self._endpoint.vendor,
                seconds=seconds,
            )
        )
        if self._deadlines.is_final:
            error.retryable = False
            error.hint = t("Set timeout_s of the model to wait longer.")
        return error


async def _drain(answer: HttpResponse) -> None:
    """Read a response to its end after the last event, so that its connection can be reused."""
    try:
        async with asyncio.timeout(_DRAIN_TIMEOUT_S):
            async for _ in answer.chunks:
                pass
    except (TimeoutError, ProviderError):
        return
