"""Provider wrapper that leaves out the parts of a request that a server refuses."""

import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing
from dataclasses import replace
from typing import Literal, cast

from agent.errors import (
    BadThoughts,
    ContextTooLong,
    NoImages,
    ProviderError,
)
from agent.events import ModelEvent, Notice, Reply, TextDelta, ToolCallDelta
from agent.i18n import mark_for_translation, t
from agent.prompts import load_prompt
from agent.providers.base import REPLAYED_THOUGHTS, ClosingProvider, ModelRequest
from agent.providers.effort import EFFORT, without_effort
from agent.providers.optional_parts import (
    NEWEST_PICTURES,
    PICTURE_PARTS,
    PICTURES,
    THINKING,
    THOUGHTS,
    TOOLS,
    VARIANTS,
    HasOptionalFields,
    ModelMemory,
    ServerMemory,
    is_by_tokens,
    is_searchable,
    is_server_error,
    limit_field,
    optional_groups,
    search_parts,
    try_without,
)
from agent.providers.tool_calls import next_call_number
from agent.records import frozen
from agent.types import Image, Message, Part, RedactedThinking, Text, Thinking

_MAX_REFUSED = 50_000
# After this many refusals of pictures, a model that never accepted any counts as blind.
_BLIND_AFTER = 2

# Omitting these parts causes a warning; other omissions are only information.
_NOTABLE = PICTURE_PARTS | {TOOLS}
_NOTHING = frozenset[str]()
_PICTURES_OMITTED = mark_for_translation(
    "Pictures were left out, because the model does not take them."
)
_NOT_FIELDS = PICTURE_PARTS | {THOUGHTS, THINKING, TOOLS}
_SERVER_ERRORS_IN_A_ROW = 2


@frozen
class _StreamedText:
    """Text of a reply: the part that is displayed, and the rest, which may be a call."""

    displayed: str
    pending: str


class CapabilityFallback:
    """Wrapper that detects refused optional parts of a request and leaves them out.

    After a refusal, the request is repeated without one part after another until it passes (see
    `search_parts`), but never after output has begun. The omitted parts are remembered for the
    server and the model, and a notice reports them. Native tools are then described in the prompt,
    and a placeholder text replaces a picture. Refused pictures and thoughts are remembered
    individually, since others may pass.

    When a model with native tools writes its calls as text, the tools are described in the prompt
    from then on, unless `tools` is "native". `images=False` and `thinking=False` leave these parts
    out from the start. `memory` may be shared by several keys of one server.
    """

    def __init__(
        self,
        provider: ClosingProvider,
        *,
        tools: Literal["native", "xml"] | None = None,
        images: bool | None = None,
        thinking: bool | None = None,
        memory: ServerMemory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._provider = provider
        self._xml: ClosingProvider | None = None
        self._tools = tools
        self._is_seeing = images is True
        self._always_omitted = frozenset({PICTURES} if images is False else ()) | (
            {THINKING} if thinking is False else frozenset()
        )
        self._memory = memory or ServerMemory()
        self._clock = clock
        # Hashes of the pictures in the last notice.
        self._noticed_pictures: list[int] = []

    @property
    def name(self) -> str:
        return self._provider.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        memory = self._memory.models.get(request.model) or self._memory.of(request.model)
        if memory.ends_at:
            memory.forget_doubts(self._clock())
        if self._is_blindness_to_notice(request, memory):
            text = t("{model} cannot see pictures", model=request.model)
            yield Notice("warning", text, t(_PICTURES_OMITTED))
        search: _Search | None = None
        while True:
            sent = self._reduce(request, memory, search.omitted if search else _NOTHING)
            # Providers are async generators; closing one ends its connection at once.
            stream = cast(AsyncGenerator[ModelEvent], self._ask(sent, memory, search))
            has_begun = False
            try:
                async with aclosing(stream):
                    async for event in stream:
                        if not has_begun and not isinstance(event, Notice):
                            has_begun = True
                            memory.server_errors = 0
                            memory.sees = memory.sees or _has_pictures(sent)
                            for notice in self._learn(request, memory, search):
                                yield notice
                        yield event
                return
            except ProviderError as exc:
                if has_begun:
                    raise
                if isinstance(exc, BadThoughts):
                    request = self._without_thoughts(request, memory, exc)
                    continue
                if is_by_tokens(exc) and not (search and is_by_tokens(search.refusal)):
                    # The request got further without the omitted parts.
                    for notice in self._learn(request, memory, search):
                        yield notice
                search = self._continue_search(request, memory, search, exc)

    async def aclose(self) -> None:
        await self._provider.aclose()

    def _is_blindness_to_notice(self, request: ModelRequest, memory: ModelMemory) -> bool:
        """Return whether to report, once, that pictures of the newest message are left out."""
        if PICTURES not in self._always_omitted and PICTURES not in memory.parts:
            return False
        pictures = _pictures_of_question(request)
        is_new = bool(pictures) and pictures != self._noticed_pictures
        self._noticed_pictures = pictures or self._noticed_pictures
        return is_new

    def _continue_search(
        self,
        request: ModelRequest,
        memory: ModelMemory,
        search: "_Search | None",
        refusal: ProviderError,
    ) -> "_Search | None":
        """Choose the parts that the next request leaves out, or raise the refusal."""
        if search is not None:
            search.advance(refusal)
            return search
        if is_by_tokens(refusal):
            limit = limit_field(self._reduce(request, memory, _NOTHING), self._provider)
            if not limit:
                raise refusal
            return _Search(refusal, try_without(limit, refusal))
        if not is_searchable(refusal):
            raise refusal
        if is_server_error(refusal):
            # Usually an outage. The caller retries first; a search starts only after further
            # errors.
            memory.server_errors += 1
            if memory.server_errors < _SERVER_ERRORS_IN_A_ROW:
                raise refusal
        groups = optional_groups(
            self._reduce(request, memory, _NOTHING),
            self._provider,
            may_omit_tools=self._tools is None and TOOLS not in memory.parts,
        )
        return _Search(refusal, search_parts(refusal, groups, memory, self._clock()))

    def _learn(
        self, request: ModelRequest, memory: ModelMemory, search: "_Search | None"
    ) -> Sequence[Notice]:
        """Remember the parts that the search left out; return the notices for the person."""
        if search is None:
            return ()
        reduced = self._reduce(request, memory, _NOTHING)
        refused, omitted = search.refusal, search.omitted
        if pictures := omitted & PICTURE_PARTS:
            self._refuse(_pictures_of(reduced, newest=PICTURES not in pictures))
            memory.refused_pictures += not isinstance(refused, ContextTooLong)
            is_blind = not (memory.sees or self._is_seeing) and (
                memory.refused_pictures >= _BLIND_AFTER
            )
            if isinstance(refused, NoImages) or is_blind:
                memory.omit({PICTURES}, self._clock(), in_doubt=is_server_error(refused))
        if THOUGHTS in omitted:
            self._refuse(part for part in _parts(reduced) if not isinstance(part, Image))
        other_parts = omitted - PICTURE_PARTS - {THOUGHTS}
        memory.omit(other_parts, self._clock(), in_doubt=is_server_error(refused))
        if is_by_tokens(refused):
            return [Notice("warning", _limit_notice(request))]
        names = omitted - VARIANTS
        if not names:
            return ()
        text = t(
            "{model} is now asked without {parts}: {reason}",
            model=request.model,
            parts=", ".join(map(_part_name, sorted(names))),
            reason=refused,
        )
        below = ""
        if pictures:
            self._noticed_pictures = _pictures_of_question(reduced)
            below = t(_PICTURES_OMITTED)
        return [Notice("warning" if omitted & _NOTABLE else "info", text, below)]

    def _without_thoughts(
        self, request: ModelRequest, memory: ModelMemory, exc: BadThoughts
    ) -> ModelRequest:
        """Return the request to send instead, or raise the error if no change can help."""
        if exc.missing:
            provider, sent = self._provider, self._reduce(request, memory, _NOTHING)
            if isinstance(
                provider, HasOptionalFields
            ) and REPLAYED_THOUGHTS in provider.optional_fields(sent):
                memory.parts.add(REPLAYED_THOUGHTS)
                return request
        elif self._refuse(part for part in _parts(request) if not isinstance(part, Image)):
            return request
        if request.options.get(EFFORT) == "none":
            raise exc
        return replace(request, options={**request.options, EFFORT: "none"})

    def _refuse(self, parts: Iterable[Part]) -> bool:
        """Remember refused parts; return whether any of them was new."""
        refused = self._memory.refused_parts
        new = {hash(mark) for part in parts if (mark := _mark(part)) is not None} - refused
        if len(refused) > _MAX_REFUSED:
            refused.clear()
        refused |= new
        return bool(new)

    def _reduce(
        self, request: ModelRequest, memory: ModelMemory, trial: frozenset[str]
    ) -> ModelRequest:
        """Return the request without parts known to be refused and those of the `trial`."""
        omitted = memory.parts | self._always_omitted | trial
        messages = request.messages
        if self._memory.refused_parts:
            messages = [self._without_refused(message) for message in messages]
        if omitted:
            if PICTURES in omitted:
                messages = [_unseen(message) for message in messages]
            elif NEWEST_PICTURES in omitted:
                newest = _newest_pictured(messages)
                messages = [
                    _unseen(message) if message is newest else message for message in messages
                ]
            if THOUGHTS in omitted:
                messages = [_without_thoughts(message) for message in messages]
            if THINKING in omitted:
                request = replace(request, options=without_effort(request.options))
            if fields := omitted - _NOT_FIELDS:
                request = replace(request, adaptations=request.adaptations | fields)
        return request if messages is request.messages else replace(request, messages=messages)

    def _ask(
        self, request: ModelRequest, memory: ModelMemory, search: "_Search | None"
    ) -> AsyncIterator[ModelEvent]:
        provider: ClosingProvider = self._provider
        in_words = (
            self._tools == "xml"
            or TOOLS in memory.parts
            or (search is not None and TOOLS in search.omitted)
        )
        if in_words:
            if self._xml is None:
                from agent.providers.text_tools.provider import TextToolProvider

                self._xml = TextToolProvider(self._provider)
            provider = self._xml
        if not request.tools:
            return provider.stream(request)
        return self._read_stream(provider, request, memory, in_words=in_words)

    async def _read_stream(
        self,
        provider: ClosingProvider,
        request: ModelRequest,
        memory: ModelMemory,
        *,
        in_words: bool,
    ) -> AsyncIterator[ModelEvent]:
        """Yield the events of the stream, with calls in its text converted to tool calls."""
        from agent.providers.text_tools.detection import DetectionBuffer

        buffer, displayed = DetectionBuffer(), ""
        stream = cast(AsyncGenerator[ModelEvent], provider.stream(request))
        async with aclosing(stream):
            async for event in stream:
                if isinstance(event, TextDelta):
                    if text := buffer.add(event.text):
                        displayed += text
                        yield TextDelta(text)
                    continue
                if isinstance(event, Reply):
                    streamed = _StreamedText(displayed, buffer.release())
                    for delta in self._convert_reply(request, event, streamed, memory, in_words):
                        yield delta
                    continue
                yield event

    def _convert_reply(
        self,
        request: ModelRequest,
        reply: Reply,
        streamed: "_StreamedText",
        memory: ModelMemory,
        in_words: bool,
    ) -> Iterator[ModelEvent]:
        from agent.providers.text_tools.detection import detect_calls

        model, message = request.model, reply.message
        detected = None
        if message.tool_calls:
            if not in_words:
                memory.has_native_calls = True
        else:
            detected = detect_calls(message.text, request.tools, next_call_number(request.messages))
        if detected is not None and memory.has_native_calls and not in_words:
            # Servers turn calls into text if they cannot read them, and only those.
            is_unreadable = all(call.arguments is None for call in detected.calls)
            detected = detected if is_unreadable else None
        elif detected is not None and not in_words and not memory.is_text_calls_noticed:
            memory.is_text_calls_noticed = True
            yield Notice("warning", _written_as_text(model, is_native_set=self._tools == "native"))
        if detected is None or self._tools == "native":
            if streamed.pending:
                yield TextDelta(streamed.pending)
            yield reply
            return
        if not memory.has_native_calls:
            memory.parts.add(TOOLS)
        if rest := detected.text[len(streamed.displayed) :]:
            yield TextDelta(rest)
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
        return mark is not None and hash(mark) in self._memory.refused_parts


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


def _parts(request: ModelRequest) -> Iterator[Part]:
    return (part for message in request.messages for part in message.content)


def _has_pictures(request: ModelRequest) -> bool:
    # Runs over the whole conversation for every request; this is the cheapest way.
    return Image in {type(part) for message in request.messages for part in message.content}


def _pictures_of_question(request: ModelRequest) -> list[int]:
    """Return hashes of the pictures in the newest user message."""
    question = next(
        (message for message in reversed(request.messages) if message.role == "user"), None
    )
    return [hash(image.data) for image in _images(question)] if question is not None else []


def _newest_pictured(messages: Sequence[Message]) -> Message | None:
    return next((message for message in reversed(messages) if _images(message)), None)


def _pictures_of(request: ModelRequest, *, newest: bool) -> Iterator[Part]:
    if newest:
        message = _newest_pictured(request.messages)
        return iter(_images(message) if message else ())
    return (part for part in _parts(request) if isinstance(part, Image))


def _images(message: Message) -> list[Image]:
    return [part for part in message.content if isinstance(part, Image)]


def _mark(part: Part) -> str | bytes | None:
    """Return an identifying value of a thought or a picture; None for any other part."""
    match part:
        case Thinking(text, signature):
            return signature or text
        case RedactedThinking(data) | Image(data=data):
            return data
    return None


def _unseen(message: Message) -> Message:
    if not _images(message):
        return message
    return replace(message, content=tuple(map(_replace_picture, message.content)))


def _replace_picture(part: Part) -> Part:
    return Text(f"{load_prompt('unseen_picture')}\n") if isinstance(part, Image) else part


def _without_thoughts(message: Message) -> Message:
    content = tuple(p for p in message.content if not isinstance(p, Thinking | RedactedThinking))
    return message if len(content) == len(message.content) else replace(message, content=content)


def _limit_notice(request: ModelRequest) -> str:
    return t(
        "{model} refuses replies of up to {limit} tokens; max_tokens is left out from now on. "
        "Lower agent.max_tokens, or the model's own.",
        model=request.model,
        limit=f"{request.max_tokens:,}",
    )


def _part_name(part: str) -> str:
    """Return a part's name for people; a body field is shown under its own name."""
    match part:
        case "pictures":
            return t("pictures")
        case "newest pictures":
            return t("the last picture")
        case "thoughts":
            return t("earlier thoughts")
        case "thinking":
            return t("thinking")
        case "tools":
            return t("native tools (they are described in the prompt instead)")
    return part


class _Search:
    """Search started by a refused request, with the refusal and the current trial."""

    def __init__(
        self,
        refusal: ProviderError,
        trials: Generator[frozenset[str], ProviderError, ProviderError],
    ) -> None:
        self.refusal = refusal
        self._trials = trials
        self.omitted = self._next(lambda: next(trials))

    def advance(self, answer: ProviderError) -> None:
        """Choose the next trial. Raise the refusal if none is left, or an unrelated `answer`."""
        is_same_kind = is_server_error(answer) <= is_server_error(self.refusal)
        if not (is_searchable(answer) and is_same_kind):
            raise answer
        self.omitted = self._next(lambda: self._trials.send(answer))

    def _next(self, step: Callable[[], frozenset[str]]) -> frozenset[str]:
        try:
            return step()
        except StopIteration as end:
            raise end.value from None
