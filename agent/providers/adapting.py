"""What a model turns out not to have, done without: a provider around a provider."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import cast

from agent.errors import NoThinking, NoTools
from agent.events import ModelEvent, Notice
from agent.providers.base import ModelRequest, Provider


class Adapting:
    """Remembers what each model refused: native tools are then told in words, thinking is left out.

    A refusal comes before anything was said, so that the same request can be made again at once.
    Once a model has answered a kind of request, nothing stands between it and the caller.
    """

    def __init__(self, provider: Provider, *, xml_tools: bool = False) -> None:
        self._provider = provider
        self._xml: Provider | None = None
        self._always_xml = xml_tools
        self._toolless: set[str] = set()
        self._thoughtless: set[str] = set()
        self._answered: set[tuple[str, bool, bool]] = set()

    @property
    def name(self) -> str:
        return self._provider.name

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        kind = (request.model, bool(request.tools), bool(request.options.get("thinking")))
        if kind in self._answered:
            return self._ask(request)
        return self._try(request, kind)

    async def aclose(self) -> None:
        await self._provider.aclose()

    async def _try(
        self, request: ModelRequest, kind: tuple[str, bool, bool]
    ) -> AsyncIterator[ModelEvent]:
        while True:
            # Providers are async generators; closing one ends its connection at once.
            stream = cast(AsyncGenerator[ModelEvent], self._ask(request))
            try:
                async with aclosing(stream):
                    async for event in stream:
                        self._answered.add(kind)
                        yield event
                return
            except NoTools:
                if not request.tools or self._uses_xml(request.model):
                    raise
                self._toolless.add(request.model)
            except NoThinking as exc:
                if request.model in self._thoughtless or not kind[2]:
                    raise
                self._thoughtless.add(request.model)
                yield Notice("info", f"going on without thinking: {exc}")

    def _ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.model in self._thoughtless:
            options = {name: v for name, v in request.options.items() if name != "thinking"}
            request = replace(request, options=options)
        if not self._uses_xml(request.model):
            return self._provider.stream(request)
        if self._xml is None:
            from agent.providers.xml_tools import XmlTools

            self._xml = XmlTools(self._provider)
        return self._xml.stream(request)

    def _uses_xml(self, model: str) -> bool:
        return self._always_xml or model in self._toolless
