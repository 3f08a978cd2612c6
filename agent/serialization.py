"""JSON forms of messages and events: dicts in, dicts out.

The forms are stable: sessions on disk and `stream-json` readers depend on them. A reader ignores
fields it does not know, so that an older Kore can read what a newer one wrote.
"""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, TypeVar, cast, get_args

from agent import events
from agent.errors import KoreError
from agent.events import Event
from agent.i18n import t
from agent.record_json import RecordCodec, safe_text
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
_CODEC = RecordCodec()


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def dumps(value: Any) -> str:
    """Compact JSON that is always valid UTF-8."""
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
    """Raises `KoreError` when the data is not a message."""
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
    """The event's fields, with its `type` first."""
    if isinstance(event, events.Done):
        return {"type": event.type, "result": result_to_json(event.result)}
    if isinstance(event, events.ApprovalAsked | events.ApprovalAnswered):
        return {"type": event.type, **_CODEC.encode(type(event), event)}
    return {"type": event.type, **asdict(event)}


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Raises `KoreError` for a type that this version does not know, and for a damaged event."""
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
    """The dataclass made of those of its fields that are there."""
    names = [field.name for field in fields(cast(Any, cls))]
    return cls(**{name: data[name] for name in names if name in data})


def part_to_json(part: Part) -> dict[str, Any]:
    """One part of a message."""
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
    """A result's pictures. Raises `KoreError` for an unknown part."""
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
