"""What a model turns out not to have, done without: a provider around a provider."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple, cast

from agent.errors import NoImages, NoThinking, NoTools
from agent.events import ModelEvent, Notice
from agent.prompts import load
from agent.providers.base import ModelRequest, Provider
from agent.types import Image, Message, Text


class _Kind(NamedTuple):
    """What a request asks of a model that not every model has."""

    model: str
    tools: bool
    thinking: bool
    images: bool


class Adapting:
    """Remembers what each model refused: native tools are then told in words, thinking is left out,
    and of a picture the model is told that there was one.

    A refusal comes before anything was said, so that the same request can be made again at once.
    Once a model has answered a kind of request, nothing stands between it and the caller.
    """

    def __init__(self, provider: Provider, *, xml_tools: bool = False) -> None:
        self._provider = provider
        self._xml: Provider | None = None
        self._always_xml = xml_tools
        self._toolless: set[str] = set()
        self._thoughtless: set[str] = set()
        self._blind: set[str] = set()
        self._answered: set[_Kind] = set()

    @property
    def name(self) -> str:
        return self._provider.name

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        kind = _kind(request)
        if kind in self._answered:
            return self._ask(request)
        return self._try(request, kind)

    async def aclose(self) -> None:
        await self._provider.aclose()

    async def _try(self, request: ModelRequest, kind: _Kind) -> AsyncIterator[ModelEvent]:
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
                if request.model in self._thoughtless or not kind.thinking:
                    raise
                self._thoughtless.add(request.model)
                yield Notice("info", f"going on without thinking: {exc}")
            except NoImages as exc:
                if request.model in self._blind or not kind.images:
                    raise
                self._blind.add(request.model)
                yield Notice("warning", f"going on without pictures: {exc}")

    def _ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.model in self._thoughtless:
            options = {name: v for name, v in request.options.items() if name != "thinking"}
            request = replace(request, options=options)
        if request.model in self._blind:
            request = replace(request, messages=[_unseen(one) for one in request.messages])
        if not self._uses_xml(request.model):
            return self._provider.stream(request)
        if self._xml is None:
            from agent.providers.xml_tools import XmlTools

            self._xml = XmlTools(self._provider)
        return self._xml.stream(request)

    def _uses_xml(self, model: str) -> bool:
        return self._always_xml or model in self._toolless


def _kind(request: ModelRequest) -> _Kind:
    images = any(isinstance(part, Image) for one in request.messages for part in one.content)
    thinking = bool(request.options.get("thinking"))
    return _Kind(request.model, bool(request.tools), thinking, images)


def _unseen(message: Message) -> Message:
    if not any(isinstance(part, Image) for part in message.content):
        return message
    told = (
        Text(f"{load('unseen_picture')}\n") if isinstance(part, Image) else part
        for part in message.content
    )
    return replace(message, content=tuple(told))
