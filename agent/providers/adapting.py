"""What a model turns out not to have, done without: a provider around a provider."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, cast, runtime_checkable

from agent.errors import BadThoughts, NoImages, NoThinking, NoTools, Rejected
from agent.events import ModelEvent, Notice
from agent.prompts import load
from agent.providers.base import ClosingProvider, ModelRequest
from agent.types import Image, Message, Part, RedactedThinking, Text, Thinking

_REFUSED_KEPT = 50_000


@runtime_checkable
class Replays(Protocol):
    """A provider that can give a model its earlier thoughts back."""

    def replay_reasoning(self, model: str) -> bool:
        """From now on; False when it does already."""


class _Kind(NamedTuple):
    """What a request asks of a model that not every model has."""

    model: str
    tools: bool
    thinking: bool
    images: bool
    # Whether tools were called before: some want the thoughts that went with it.
    calls: bool


@dataclass(slots=True)
class _Lacks:
    """What a model does without."""

    tools: bool = False
    thinking: bool = False
    images: bool = False


class Adapting:
    """Remembers what each model refused: native tools are then told in words, thinking is left out,
    and of a picture the model is told that there was one.

    Thoughts of another model, account or prompt, which their vendor signs and checks, are left out
    once they were refused: the conversation goes on without them. A refusal comes before anything
    was said, so that the same request can be made again at once. Once a model has answered a kind
    of request, and thoughts are no matter, nothing stands between it and the caller.
    """

    def __init__(
        self, provider: ClosingProvider, *, tools: Literal["native", "xml"] | None = None
    ) -> None:
        self._provider = provider
        self._xml: ClosingProvider | None = None
        self._tools = tools
        self._lacks: dict[str, _Lacks] = {}
        self._answered: set[_Kind] = set()
        # Hashes of thoughts that were refused.
        self._refused: set[int] = set()

    @property
    def name(self) -> str:
        return self._provider.name

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        kind = _kind(request)
        if kind in self._answered and not _recalls(request):
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
            except BadThoughts as exc:
                request = self._rethought(request, exc)
            except Rejected as exc:
                told = self._done_without(kind, exc)
                if told:
                    yield told

    def _done_without(self, kind: _Kind, exc: Rejected) -> Notice | None:
        """Notes what the model lacks; returns what a person is told. Raises what nothing mends."""
        lacks = self._lacks.setdefault(kind.model, _Lacks())
        match exc:
            case NoTools() if kind.tools and self._tools is None and not lacks.tools:
                lacks.tools = True
                return None
            case NoThinking() if kind.thinking and not lacks.thinking:
                lacks.thinking = True
                return Notice("info", f"going on without thinking: {exc}")
            case NoImages() if kind.images and not lacks.images:
                lacks.images = True
                return Notice("warning", f"going on without pictures: {exc}")
        raise exc

    def _rethought(self, request: ModelRequest, exc: BadThoughts) -> ModelRequest:
        """The request to make instead. Raises what nothing mends."""
        if exc.missing:
            provider = self._provider
            if isinstance(provider, Replays) and provider.replay_reasoning(request.model):
                return request
        elif new := {hash(one) for m in request.messages for one in _thoughts(m)} - self._refused:
            if len(self._refused) > _REFUSED_KEPT:
                self._refused.clear()
            self._refused |= new
            return request
        if request.options.get("thinking") is False:
            raise exc
        return replace(request, options={**request.options, "thinking": False})

    def _ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        lacks = self._lacks.get(request.model, _Lacks())
        if lacks.thinking:
            options = {name: v for name, v in request.options.items() if name != "thinking"}
            request = replace(request, options=options)
        if lacks.images:
            request = replace(request, messages=[_unseen(one) for one in request.messages])
        if self._refused:
            request = replace(request, messages=self._forgotten(request.messages))
        if not lacks.tools and self._tools != "xml":
            return self._provider.stream(request)
        if self._xml is None:
            from agent.providers.xml_tools import XmlTools

            self._xml = XmlTools(self._provider)
        return self._xml.stream(request)

    def _forgotten(self, messages: Sequence[Message]) -> list[Message]:
        return [self._without_refused(message) for message in messages]

    def _without_refused(self, message: Message) -> Message:
        if not any(map(self._is_refused, _thoughts(message))):
            return message
        kept = tuple(part for part in message.content if not self._is_refused(_thought(part)))
        return replace(message, content=kept)

    def _is_refused(self, thought: str | None) -> bool:
        return thought is not None and hash(thought) in self._refused


def _kind(request: ModelRequest) -> _Kind:
    images = any(isinstance(part, Image) for one in request.messages for part in one.content)
    thinking = bool(request.options.get("thinking"))
    calls = any(one.tool_calls for one in request.messages)
    return _Kind(request.model, bool(request.tools), thinking, images, calls)


def _recalls(request: ModelRequest) -> bool:
    """Whether thoughts go back to the model."""
    kinds = Thinking | RedactedThinking
    return any(isinstance(part, kinds) for one in request.messages for part in one.content)


def _thoughts(message: Message) -> list[str]:
    if message.role != "assistant":
        return []
    return [thought for part in message.content if (thought := _thought(part)) is not None]


def _thought(part: Part) -> str | None:
    """What tells a thought from all others; None for what is none."""
    match part:
        case Thinking(text, signature):
            return signature or text
        case RedactedThinking(data):
            return data
    return None


def _unseen(message: Message) -> Message:
    if not any(isinstance(part, Image) for part in message.content):
        return message
    told = (
        Text(f"{load('unseen_picture')}\n") if isinstance(part, Image) else part
        for part in message.content
    )
    return replace(message, content=tuple(told))
