"""Adapter for custom providers, which only have to implement `stream`."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol, runtime_checkable

from agent.errors import BadReply, ProviderError, TimedOut, Unavailable
from agent.events import ModelEvent, Reply, TextDelta
from agent.i18n import t
from agent.providers.base import ModelRequest, Provider
from agent.providers.bounded import bound_reply, reply_limit


@runtime_checkable
class ClosableProvider(Protocol):
    """Optional ability of a provider to release connections and other resources."""

    async def aclose(self) -> None: ...


class CustomProvider:
    """Wrapper for a provider that is not part of Kore.

    Lost connections and Python's timeouts become errors that are retried; any other exception is a
    bug in the provider and propagates. The text of a reply without deltas is emitted as one delta.
    Endless replies end as those of `BoundedProvider` with this `window`.
    """

    def __init__(self, provider: Provider, name: str, *, window: int | None = None) -> None:
        self.provider = provider
        self._name = name
        self._window = window

    @property
    def name(self) -> str:
        return self._name

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        return bound_reply(self._stream(request), reply_limit(request, self._window))

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        events: object = self.provider.stream(request)
        if not isinstance(events, AsyncIterator):
            if inspect.iscoroutine(events):
                events.close()
            raise BadReply(
                f"the provider {self._name!r} does not stream: stream(request) must be an "
                "async generator that yields events and, last, a Reply"
            )
        has_text = False
        try:
            async for event in events:
                has_text = has_text or isinstance(event, TextDelta)
                if isinstance(event, Reply) and not has_text and event.message.text:
                    yield TextDelta(event.message.text)
                yield event
        except ProviderError:
            raise
        except TimeoutError as exc:
            raise TimedOut(t("{vendor} timed out", vendor=self._name)) from exc
        except OSError as exc:
            raise Unavailable(t("the connection to {vendor} was lost", vendor=self._name)) from exc
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    async def aclose(self) -> None:
        if isinstance(self.provider, ClosableProvider):
            await self.provider.aclose()
