"""Every vendor that speaks OpenAI's chat completions, over either transport."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from agent.errors import ProviderError, TimedOut, Unavailable
from agent.events import ModelEvent
from agent.providers import faults
from agent.providers.base import ModelRequest
from agent.providers.portion import joined
from agent.providers.reply import ReplyBuilder, next_call_number
from agent.providers.sse import EventReader, JsonObject
from agent.providers.transport import AiohttpTransport, Answer, Deadlines, Endpoint, Transport
from agent.providers.wire import Dialect, Encoder

_ERROR_BODY_BYTES = 64 << 10
_DRAIN_S = 0.1


class OpenAI:
    """A `Provider` for one endpoint; `transport` is aiohttp unless another is given."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport | None = None,
        *,
        dialect: Dialect | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._deadlines = deadlines or Deadlines()
        self._transport = transport or AiohttpTransport(endpoint, self._deadlines)
        self._encoder = Encoder(dialect or Dialect())

    @property
    def name(self) -> str:
        return self._endpoint.vendor

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One model call. Closing the iterator closes the connection."""
        body = self._encoder.body(request)
        reply = ReplyBuilder(lambda: next_call_number(request.messages))
        reader = EventReader()
        async with AsyncExitStack() as stack:
            async with self._within(self._deadlines.first_byte_s):
                answer = await stack.enter_async_context(self._transport.post(body))
            if not 200 <= answer.status < 300:
                raise await self._refusal(request.model, answer)
            portions = await stack.enter_async_context(
                aclosing(self._portions(answer, reader, reply))
            )
            async for portion in portions:
                for event in joined(self._meaning(portion, reply, request.model)):
                    yield event
            # Before the reply: whoever has it may stop iterating, and the connection would close.
            await _drain(answer)
            for event in reply.finish(done=reader.done):
                yield event

    async def aclose(self) -> None:
        """Close the connections; the provider opens new ones when it is used again."""
        await self._transport.aclose()

    def _meaning(
        self, portion: Iterable[JsonObject], reply: ReplyBuilder, model: str
    ) -> Iterator[ModelEvent]:
        for payload in portion:
            if error := faults.from_payload(self._endpoint, model, payload):
                raise error
            yield from reply.add(payload)

    async def _portions(
        self, answer: Answer, reader: EventReader, reply: ReplyBuilder
    ) -> AsyncGenerator[list[JsonObject], None]:
        """What each read of the connection has completed."""
        wait_s = self._deadlines.first_byte_s
        while not reader.done:
            chunk = None
            # A server may forget to end a stream whose reply is complete.
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

    async def _refusal(self, model: str, answer: Answer) -> ProviderError:
        body = b""
        try:
            async with self._within(self._deadlines.idle_s):
                async for chunk in answer.chunks:
                    body += chunk
                    if len(body) > _ERROR_BODY_BYTES:
                        break
        except (TimedOut, Unavailable):
            pass  # the status alone says enough
        return faults.from_response(self._endpoint, model, answer.status, answer.headers, body)

    @asynccontextmanager
    async def _within(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as exc:
            raise self._silent(seconds) from exc

    def _silent(self, seconds: float) -> TimedOut:
        return TimedOut(f"{self._endpoint.vendor} was silent for {seconds:g} seconds")


async def _drain(answer: Answer) -> None:
    """Read the end of a response after `[DONE]`, so that its connection can serve again."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in answer.chunks:
                pass
    except (TimeoutError, ProviderError):
        return
