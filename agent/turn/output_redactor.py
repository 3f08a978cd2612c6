"""Redaction of model output. Calls that contain a secret lose their arguments."""

from collections.abc import Iterator
from dataclasses import replace

from agent import events
from agent.events import ModelEvent
from agent.security.redaction import RedactionStream, Redactor
from agent.serialization import dumps
from agent.types import (
    Image,
    ImageFile,
    Message,
    Part,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolCallMarker,
)


class OutputRedactor:
    """Redactor for the events of one model stream; it also finds values split across events."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._streams: dict[str, RedactionStream] = {}

    def clean(self, event: ModelEvent) -> Iterator[ModelEvent]:
        """Yield the redacted event, as far as its text is final.

        The last event brings the remainder.
        """
        if not self._redactor:
            yield event
            return
        match event:
            case events.TextDelta(text):
                if text := self._stream("text").feed(text):
                    yield events.TextDelta(text)
            case events.ThinkingDelta(text):
                yield replace(event, text=self._stream("thinking").feed(text))
            case events.ThinkingEnd(thinking):
                self._streams.pop("thinking", None)
                yield events.ThinkingEnd(self._redactor.clean(thinking))
            case events.ToolCallDelta(id_, _, piece):
                yield replace(event, partial_json=self._stream(f"call {id_}").feed(piece))
            case events.Retry(reason):
                self._streams.clear()
                yield replace(event, reason=self._redactor.clean(reason))
            case events.Notice(_, text):
                yield replace(event, text=self._redactor.clean(text))
            case events.Reply():
                if rest := self._stream("text").end():
                    yield events.TextDelta(rest)
                yield replace(event, message=clean_message(event.message, self._redactor))

    def _stream(self, name: str) -> RedactionStream:
        if name not in self._streams:
            self._streams[name] = self._redactor.stream()
        return self._streams[name]


def clean_message(message: Message, redactor: Redactor) -> Message:
    """Return the redacted message, or the same object, with its vendor data, if nothing changes."""
    content = tuple(_clean_part(part, redactor) for part in message.content)
    calls = tuple(_clean_call(call, redactor) for call in message.tool_calls)
    if content == message.content and calls == message.tool_calls:
        return message
    return replace(message, content=content, tool_calls=calls)


def _clean_part(part: Part, redactor: Redactor) -> Part:
    if isinstance(part, RedactedThinking | Image | ImageFile | ToolCallMarker):
        # Only the vendor can read the first type, and the others are not text.
        return part
    text = redactor.clean(part.text)
    # Some vendors' signatures also contain the text.
    vouches = not isinstance(part, Thinking) or _is_clean(part.signature or "", redactor)
    if text == part.text and vouches:
        return part
    # A signature is valid only for the original text.
    return Thinking(text) if isinstance(part, Thinking) else Text(text)


def _is_clean(text: str, redactor: Redactor) -> bool:
    return redactor.clean(text) == text


def _clean_call(call: ToolCall, redactor: Redactor) -> ToolCall:
    raw = redactor.clean(call.raw)
    if call.arguments is not None and redactor.occurs_in(call.arguments):
        # Changed arguments could do anything. Without arguments, the call cannot run, now or after
        # a restart.
        raw = dumps(redactor.clean_data(call.arguments))
        return replace(call, arguments=None, raw=raw)
    return call if raw == call.raw else replace(call, arguments=None, raw=raw)
