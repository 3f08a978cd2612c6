"""What a model turns out not to have, done without: a provider around a provider."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, cast, runtime_checkable

from agent.errors import (
    BadImage,
    BadThoughts,
    NoImages,
    NoThinking,
    NoTools,
    Rejected,
    WrongLimitName,
)
from agent.events import ModelEvent, Notice, Reply, TextDelta, ToolCallDelta
from agent.i18n import t
from agent.prompts import load_prompt
from agent.providers.base import ClosingProvider, ModelRequest
from agent.providers.model_settings import asks_for_thoughts, without_thinking
from agent.providers.tool_calls import next_call_number
from agent.types import Image, Message, Part, RedactedThinking, Text, Thinking

_MOST_REFUSED = 50_000


@runtime_checkable
class ReplaysReasoning(Protocol):
    """A provider that can give a model its earlier thoughts back."""

    def replay_reasoning(self, model: str) -> bool:
        """From now on; False when it does already."""


@runtime_checkable
class RenamesLimit(Protocol):
    """A provider that knows two names for the limit of a reply's tokens."""

    def rename_limit(self, model: str) -> bool:
        """Use the other one from now on; False when it does already."""


class _Kind(NamedTuple):
    """What a request asks of a model that not every model has."""

    model: str
    tools: bool
    thinking: bool
    images: bool
    # Whether tools were called before: some want the thoughts that went with it.
    calls: bool


@dataclass(slots=True)
class _MissingCapabilities:
    """What a model does without."""

    tools: bool = False
    thinking: bool = False
    images: bool = False


class CapabilityFallback:
    """Remembers what each model refused: native tools are then told in words, thinking is left out,
    and of a picture the model is told that there was one.

    Thoughts of another model, account or prompt, which their vendor signs and checks, are left out
    once they were refused: the conversation goes on without them. So it does without a picture
    that is too large or broken. A refusal comes before anything was said, so that the same request
    can be made again at once. Once a model has answered a kind of request that holds neither
    thoughts nor pictures, it is asked directly. A model that was given tools and writes its calls
    as text is told of them in words from then on, unless `tools` is "native". A model that is known
    not to see or not to think (`images`, `thinking`) is not tried with either.
    """

    def __init__(
        self,
        provider: ClosingProvider,
        *,
        tools: Literal["native", "xml"] | None = None,
        images: bool | None = None,
        thinking: bool | None = None,
    ) -> None:
        self._provider = provider
        self._xml: ClosingProvider | None = None
        self._tools = tools
        self._known_missing = _MissingCapabilities(
            thinking=thinking is False, images=images is False
        )
        self._missing_by_model: dict[str, _MissingCapabilities] = {}
        self._answered_kinds: set[_Kind] = set()
        # Models that have called a tool natively, and those of which a person was told otherwise.
        self._native: set[str] = set()
        self._noticed: set[str] = set()
        self._is_blindness_noticed = False
        # Hashes of thoughts and pictures that were refused.
        self._refused_parts: set[int] = set()

    @property
    def name(self) -> str:
        return self._provider.name

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        kind = _kind(request)
        if kind in self._answered_kinds and not _may_be_refused(request):
            return self._ask(request)
        return self._try(request, kind)

    async def aclose(self) -> None:
        await self._provider.aclose()

    async def _try(self, request: ModelRequest, kind: _Kind) -> AsyncIterator[ModelEvent]:
        blurred = False
        if kind.images and self._known_missing.images and not self._is_blindness_noticed:
            self._is_blindness_noticed = True
            yield Notice("warning", t("{model} cannot see pictures", model=kind.model))
        while True:
            # Providers are async generators; closing one ends its connection at once.
            stream = cast(AsyncGenerator[ModelEvent], self._ask(request))
            try:
                async with aclosing(stream):
                    async for event in stream:
                        self._answered_kinds.add(kind)
                        yield event
                return
            except BadThoughts as exc:
                request = self._without_thoughts(request, exc)
            except BadImage as exc:
                self._refuse_pictures(request, exc, every=blurred)
                blurred = True
                yield Notice("warning", t("retrying without the picture: {exc}", exc=exc))
            except Rejected as exc:
                notice = self._adapt_to_rejection(kind, exc)
                if notice:
                    yield notice

    def _missing(self, model: str) -> _MissingCapabilities:
        if model not in self._missing_by_model:
            self._missing_by_model[model] = replace(self._known_missing)
        return self._missing_by_model[model]

    def _adapt_to_rejection(self, kind: _Kind, exc: Rejected) -> Notice | None:
        """Notes what the model lacks; returns what a person is told. Raises what nothing mends."""
        lacks = self._missing(kind.model)
        match exc:
            case NoTools() if kind.tools and self._tools is None and not lacks.tools:
                lacks.tools = True
                return None
            case WrongLimitName() if isinstance(
                self._provider, RenamesLimit
            ) and self._provider.rename_limit(kind.model):
                return None
            case NoThinking() if kind.thinking and not lacks.thinking:
                lacks.thinking = True
                return Notice("info", t("retrying without thinking: {exc}", exc=exc))
            case NoImages() if kind.images and not lacks.images:
                lacks.images = True
                return Notice("warning", t("retrying without pictures: {exc}", exc=exc))
        raise exc

    def _without_thoughts(self, request: ModelRequest, exc: BadThoughts) -> ModelRequest:
        """The request to make instead. Raises what nothing mends."""
        if exc.missing:
            provider = self._provider
            if isinstance(provider, ReplaysReasoning) and provider.replay_reasoning(request.model):
                return request
        elif self._refuse(part for part in _parts(request) if not isinstance(part, Image)):
            return request
        if request.options.get("thinking") is False:
            raise exc
        options = without_thinking(request.options)
        return replace(request, options={**options, "thinking": False})

    def _refuse_pictures(self, request: ModelRequest, exc: BadImage, *, every: bool) -> None:
        """Leave out the pictures that came last, mostly the ones that are refused, or `every` one.

        Raises what nothing mends.
        """
        pictured = [
            pictures
            for one in request.messages
            if (pictures := [part for part in one.content if isinstance(part, Image)])
            and not all(map(self._is_refused, pictures))
        ]
        if not self._refuse(part for one in pictured[0 if every else -1 :] for part in one):
            raise exc

    def _refuse(self, parts: Iterable[Part]) -> bool:
        """Remember them; False when there was nothing new."""
        new = {
            hash(mark) for part in parts if (mark := _mark(part)) is not None
        } - self._refused_parts
        if len(self._refused_parts) > _MOST_REFUSED:
            self._refused_parts.clear()
        self._refused_parts |= new
        return bool(new)

    def _ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        lacks = self._missing(request.model)
        if lacks.thinking:
            request = replace(request, options=without_thinking(request.options))
        if lacks.images:
            request = replace(request, messages=[_unseen(one) for one in request.messages])
        if self._refused_parts:
            messages = [self._without_refused(one) for one in request.messages]
            request = replace(request, messages=messages)
        provider: ClosingProvider = self._provider
        if lacks.tools or self._tools == "xml":
            if self._xml is None:
                from agent.providers.text_tools.provider import TextToolProvider

                self._xml = TextToolProvider(self._provider)
            provider = self._xml
        elif request.model in self._native:
            return provider.stream(request)
        return self._read_stream(provider, request) if request.tools else provider.stream(request)

    async def _read_stream(
        self, provider: ClosingProvider, request: ModelRequest
    ) -> AsyncIterator[ModelEvent]:
        """The stream, with calls that stand in its text taken out of it."""
        from agent.providers.text_tools.detection import DetectionBuffer

        buffer = DetectionBuffer()
        stream = cast(AsyncGenerator[ModelEvent], provider.stream(request))
        async with aclosing(stream):
            async for event in stream:
                if isinstance(event, TextDelta):
                    if text := buffer.add(event.text):
                        yield TextDelta(text)
                    continue
                if isinstance(event, Reply):
                    for one in self._convert_reply(request, event, buffer.release()):
                        yield one
                    continue
                yield event

    def _convert_reply(
        self, request: ModelRequest, reply: Reply, pending: str
    ) -> Iterator[ModelEvent]:
        from agent.providers.text_tools.detection import detect_calls

        model, message = request.model, reply.message
        in_words = self._tools == "xml" or self._missing(model).tools
        tools = {tool.name: tool for tool in request.tools}
        detected = None
        if message.tool_calls:
            if not in_words:
                self._native.add(model)
        else:
            detected = detect_calls(message.text, tools, next_call_number(request.messages))
        if detected is not None and not in_words and model not in self._noticed:
            self._noticed.add(model)
            yield Notice("warning", _written_as_text(model, is_native_set=self._tools == "native"))
        if detected is None or self._tools == "native":
            if pending:
                yield TextDelta(pending)
            yield reply
            return
        self._missing(model).tools = True
        for call in detected.calls:
            yield ToolCallDelta(call.id, call.name, call.raw)
        parts: list[Part] = [part for part in message.content if not isinstance(part, Text)]
        parts += [Text(detected.text)] if detected.text else []
        reason = "tool_calls" if reply.finish_reason == "stop" else reply.finish_reason
        message = Message("assistant", tuple(parts), detected.calls)
        yield replace(reply, message=message, finish_reason=reason)

    def _without_refused(self, message: Message) -> Message:
        if not any(map(self._is_refused, message.content)):
            return message
        parts = [
            _replace_picture(part) if self._is_refused(part) else part
            for part in message.content
            if isinstance(part, Image) or not self._is_refused(part)
        ]
        return replace(message, content=tuple(parts))

    def _is_refused(self, part: Part) -> bool:
        mark = _mark(part)
        return mark is not None and hash(mark) in self._refused_parts


def _written_as_text(model: str, *, is_native_set: bool) -> str:
    if is_native_set:
        return t(
            "{model} writes tool calls as plain text, so they cannot run. Its model_list "
            'entry sets tools: "native"; remove that or set tools: "xml".',
            model=model,
        )
    return t(
        "{model} writes tool calls as plain text; tools are now described in the prompt "
        'instead. To start that way, set tools: "xml" in its model_list entry.',
        model=model,
    )


def _kind(request: ModelRequest) -> _Kind:
    images = Image in _part_types(request)
    thinking = asks_for_thoughts(request.options)
    calls = any(one.tool_calls for one in request.messages)
    return _Kind(request.model, bool(request.tools), thinking, images, calls)


def _parts(request: ModelRequest) -> Iterator[Part]:
    return (part for one in request.messages for part in one.content)


def _part_types(request: ModelRequest) -> set[type[Part]]:
    # Every request looks at the whole conversation: of the ways to do so this is the cheapest.
    return {type(part) for one in request.messages for part in one.content}


def _may_be_refused(request: ModelRequest) -> bool:
    return not _part_types(request).isdisjoint((Thinking, RedactedThinking, Image))


def _mark(part: Part) -> str | bytes | None:
    """What tells a thought or a picture from all others; None for what is neither."""
    match part:
        case Thinking(text, signature):
            return signature or text
        case RedactedThinking(data) | Image(data=data):
            return data
    return None


def _unseen(message: Message) -> Message:
    if not any(isinstance(part, Image) for part in message.content):
        return message
    return replace(message, content=tuple(map(_replace_picture, message.content)))


def _replace_picture(part: Part) -> Part:
    return Text(f"{load_prompt('unseen_picture')}\n") if isinstance(part, Image) else part
