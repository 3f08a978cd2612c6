"""JSON forms of messages, events and other records.

The forms are stable: sessions on disk and `stream-json` readers depend on them. A reader ignores
unknown fields, so that an older Kore can read files of a newer version.
"""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from agent import events
from agent.errors import KoreError
from agent.events import Event
from agent.i18n import t
from agent.types import (
    Context,
    Image,
    ImageFile,
    Message,
    Part,
    RedactedThinking,
    Result,
    Text,
    Thinking,
    ToolCall,
    ToolCallMarker,
    Usage,
)

T = TypeVar("T")
_EVENTS: dict[str, type[Event]] = {cls.type: cls for cls in get_args(Event)}
# Largest integer of a database.
_MAX_INTEGER = 2**63 - 1
_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")

# Functions that encode and decode a type with a special form.
Forms = Mapping[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]]


def safe_text(text: str) -> str:
    """Return the text without lone surrogates, which SQLite and wire formats cannot carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.translate(_SURROGATES)
    return text


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def dumps(value: Any) -> str:
    """Return compact JSON that is always valid UTF-8."""
    return safe_text(_JSON.encode(value))


def message_to_json(message: Message) -> dict[str, Any]:
    data: dict[str, Any] = {
        "role": message.role,
        "content": [part_to_json(part) for part in message.content],
    }
    if message.tool_calls:
        data["tool_calls"] = [asdict(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        data["tool_call_id"] = message.tool_call_id
    if message.is_error:
        data["is_error"] = True
    if message.taint:
        data["taint"] = sorted(message.taint)
    return data


def message_from_json(data: Mapping[str, Any]) -> Message:
    """Return a message. Raises `KoreError` when the data is not a message."""
    try:
        return Message(
            role=data["role"],
            content=tuple(_part_from_json(part) for part in data["content"]),
            tool_calls=tuple(
                ToolCall(call["id"], call["name"], call["arguments"], call["raw"])
                for call in data.get("tool_calls", ())
            ),
            tool_call_id=data.get("tool_call_id"),
            is_error=bool(data.get("is_error", False)),
            taint=frozenset(data.get("taint", ())),
        )
    except (KeyError, TypeError, binascii.Error) as exc:
        raise KoreError(t("a stored message is damaged: {reason!r}", reason=exc)) from exc


def event_to_json(event: Event) -> dict[str, Any]:
    """Return the event's fields, with its `type` first."""
    if isinstance(event, events.Done):
        return {"type": event.type, "result": result_to_json(event.result)}
    if isinstance(event, events.ApprovalAsked | events.ApprovalAnswered):
        return {"type": event.type, **_CODEC.encode(type(event), event)}
    return {"type": event.type, **asdict(event)}


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Return an event. Raises `KoreError` for an unknown type and for a damaged event."""
    cls = _EVENTS.get(data.get("type", ""))
    if cls is None:
        raise KoreError(t("unknown event type {value!r}", value=data.get("type")))
    try:
        if cls is events.Done:
            return events.Done(result_from_json(data["result"]))
        if cls is events.UsageReport:
            session = data.get("session_usage")
            usages = {
                "usage": _of(Usage, data["usage"]),
                "session_usage": session and _of(Usage, session),
            }
            return _of(events.UsageReport, {**data, **usages})
        if cls is events.ContextInvalidated:
            return events.ContextInvalidated(data["path"], tuple(data["agents"]))
        if cls in (events.ApprovalAsked, events.ApprovalAnswered):
            event: Event = _CODEC.decode(cls, data, cls.type)
            return event
        return _of(cls, data)
    except (KeyError, TypeError) as exc:
        raise KoreError(t("a stored event is damaged: {reason!r}", reason=exc)) from exc


def result_to_json(result: Result) -> dict[str, Any]:
    return {
        "success": result.success,
        "text": result.text,
        "session_id": result.session_id,
        "messages": [message_to_json(message) for message in result.messages],
        "usage": asdict(result.usage),
        "signal": result.signal,
        "signal_reason": result.signal_reason,
        "stopped": result.stopped,
        "error_code": result.error_code,
        "cost_usd": result.cost_usd,
    }


def result_from_json(data: Mapping[str, Any]) -> Result:
    messages = tuple(message_from_json(message) for message in data["messages"])
    return _of(Result, {**data, "messages": messages, "usage": _of(Usage, data["usage"])})


def _of(cls: type[T], data: Mapping[str, Any]) -> T:
    """Return a dataclass made from the fields that are present."""
    names = [field.name for field in fields(cast(Any, cls))]
    return cls(**{name: data[name] for name in names if name in data})


def part_to_json(part: Part) -> dict[str, Any]:
    """Return one part of a message as JSON."""
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Context(text):
            return {"type": "context", "text": text}
        case Thinking(text, signature):
            return {"type": "thinking", "text": text, "signature": signature}
        case RedactedThinking(data):
            return {"type": "redacted_thinking", "data": data}
        case ToolCallMarker(call_id):
            return {"type": "called", "id": call_id}
        case ImageFile(path, media_type, digest):
            return {"type": "image_file", "path": path, "media_type": media_type, "digest": digest}
        case Image(media_type, data):
            encoded = b64encode(data).decode()
            return {"type": "image", "media_type": media_type, "data": encoded}


def images_from_json(data: Sequence[Mapping[str, Any]]) -> tuple[Image | ImageFile, ...]:
    """Return a result's pictures. Raises `KoreError` for an unknown part."""
    return tuple(part for part in map(_part_from_json, data) if isinstance(part, Image | ImageFile))


def _part_from_json(data: Mapping[str, Any]) -> Part:
    match data["type"]:
        case "context":
            return Context(data["text"])
        case "thinking":
            return Thinking(data["text"], data.get("signature"))
        case "redacted_thinking":
            return RedactedThinking(data["data"])
        case "called":
            return ToolCallMarker(data["id"])
        case "image_file":
            return ImageFile(data["path"], data["media_type"], data["digest"])
        case "image":
            return Image(data["media_type"], b64decode(data["data"]))
        case "text":
            return Text(data["text"])
        case other:
            raise KoreError(t("a stored message contains an unknown part {other!r}", other=other))


class RecordCodec:
    """Codec between values and JSON, by type.

    Supported types are str, int, float, bool, None, `Literal`, `Path`, frozen dataclasses, and
    sequences and mappings of them. `forms` are the two functions of each type with a special form.
    """

    def __init__(self, forms: Forms | None = None) -> None:
        self._forms = forms or {}

    def encode(self, kind: Any, value: Any) -> Any:
        """Return the JSON form of a value of type `kind`.

        A path becomes absolute, because another process may run in another folder.
        """
        if kind in self._forms:
            return self._forms[kind][0](value)
        if isinstance(value, Path):
            return str(value.absolute())
        if value is None or kind is Any:
            return value
        if isinstance(kind, type) and is_dataclass(kind):
            return {
                name: self.encode(part, getattr(value, name)) for name, part in _hints(kind).items()
            }
        origin, parts = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            return self.encode(_optional(parts), value)
        if origin in (Sequence, list):
            return [self.encode(parts[0], item) for item in value]
        if origin is tuple:
            return [self.encode(part, item) for part, item in _pairs(parts, value)]
        if origin in (Mapping, dict):
            return {key: self.encode(parts[1], item) for key, item in value.items()}
        return value

    def decode(self, kind: Any, data: Any, where: str) -> Any:
        """Return the value of type `kind`.

        Raises `KoreError`, which names the place (`where`), the value and the expected type.
        Unknown fields of a dataclass are ignored.
        """
        if kind is Any:
            return data
        if kind in self._forms:
            return self._forms[kind][1](_expect(dict, data, where, "an object"))
        if isinstance(kind, type) and is_dataclass(kind):
            return self._decode_record(kind, _expect(dict, data, where, "an object"), where)
        origin, parts = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            return None if data is None else self.decode(_optional(parts), data, where)
        if origin is Literal:
            if data not in parts:
                raise _mismatch(data, where, f"one of {', '.join(map(str, parts))}")
            return data
        if origin in (Sequence, list):
            items = _expect(list, data, where, "a list")
            return [self.decode(parts[0], item, f"{where}[{n}]") for n, item in enumerate(items)]
        if origin is tuple:
            items = _expect(list, data, where, "a list")
            if parts[-1] is not ... and len(parts) != len(items):
                raise _mismatch(data, where, f"{len(parts)} items")
            pairs = enumerate(_pairs(parts, items))
            return tuple(self.decode(part, item, f"{where}[{n}]") for n, (part, item) in pairs)
        if origin in (Mapping, dict):
            entries = _expect(dict, data, where, "an object")
            return {
                key: self.decode(parts[1], item, f"{where}.{key}") for key, item in entries.items()
            }
        return _decode_scalar(kind, data, where)

    def _decode_record(self, kind: Any, data: Mapping[str, Any], where: str) -> Any:
        hints = _hints(kind)
        for field in fields(kind):
            optional = field.default is not MISSING or field.default_factory is not MISSING
            if field.name not in data and not optional:
                raise KoreError(f"{where}: {field.name!r} is missing")
        return kind(
            **{
                name: self.decode(part, data[name], f"{where}.{name}")
                for name, part in hints.items()
                if name in data
            }
        )


def _decode_scalar(kind: Any, data: Any, where: str) -> Any:
    if kind is Path:
        path = safe_text(_expect(str, data, where, "a path"))
        if "\0" in path:
            raise _mismatch(data, where, "a path")
        return Path(path)
    if kind is float and type(data) is int:
        return float(data)
    if kind is NoneType:
        return _expect(NoneType, data, where, "null")
    if kind is int and type(data) is int and abs(data) > _MAX_INTEGER:
        raise _mismatch(data, where, "an integer of at most 64 bits")
    if kind is str and type(data) is str:
        return safe_text(data)
    return _expect(kind, data, where, _NAMES[kind])


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    """Return the types of a dataclass's fields."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _optional(parts: tuple[Any, ...]) -> Any:
    """Return the type of an optional value; other unions need a special form."""
    (kind,) = (part for part in parts if part is not NoneType)
    return kind


def _pairs(parts: tuple[Any, ...], items: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return each item of a tuple with its type."""
    if parts[-1] is ...:
        return [(parts[0], item) for item in items]
    return list(zip(parts, items, strict=True))


def _expect(kind: Any, data: Any, where: str, expected: str) -> Any:
    # Not isinstance, because true is not an integer.
    if type(data) is not kind:
        raise _mismatch(data, where, expected)
    return data


def _mismatch(data: Any, where: str, expected: str) -> KoreError:
    actual = f"a {type(data).__name__}" if isinstance(data, list | dict) else repr(data)[:80]
    return KoreError(f"{where}: found {actual}, expected {expected}")


_CODEC = RecordCodec()
