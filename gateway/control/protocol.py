"""What crosses the control socket: JSON forms of the gateway's values, errors, and the address."""

import json
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.serialization import dumps, event_from_json, event_to_json
from gateway.core.approval import ApprovalPrompt
from gateway.core.errors import ConnectionLost, HandedOver
from gateway.core.messages import InboundMessage, Media, Route, Sender
from gateway.core.records import (
    ConsoleLease,
    Delivered,
    Excerpt,
    SearchHit,
    SessionInfo,
    SessionPreview,
    WatchEvent,
)

# Raised when two processes of different Kore versions would not understand each other.
PROTOCOL = 1
REQUEST_LIMIT_BYTES = 4 * 1024 * 1024
LINE_LIMIT_BYTES = 16 * 1024 * 1024


def inbound_to_json(message: InboundMessage) -> dict[str, Any]:
    return asdict(message)


def inbound_from_json(data: Mapping[str, Any]) -> InboundMessage:
    """Raises `KoreError` when the data is not a message."""
    try:
        sender = Sender(**_known(Sender, data["sender"]))
        media = tuple(Media(**_known(Media, one)) for one in data.get("media", ()))
        return InboundMessage(**{**_known(InboundMessage, data), "sender": sender, "media": media})
    except (KeyError, TypeError) as exc:
        raise KoreError(f"an inbound message is damaged: {exc!r}") from exc


def opened_from_json(data: Mapping[str, Any]) -> ConsoleLease:
    return ConsoleLease(**_known(ConsoleLease, data))


def session_from_json(data: Mapping[str, Any]) -> SessionInfo:
    return SessionInfo(**_known(SessionInfo, data))


def glimpse_from_json(data: Mapping[str, Any]) -> SessionPreview:
    parts = (data["beginning"], data["end"])
    said = (tuple(Excerpt(**_known(Excerpt, one)) for one in part) for part in parts)
    return SessionPreview(session_from_json(data["info"]), *said)


def found_from_json(data: Mapping[str, Any]) -> SearchHit:
    marks = tuple((int(start), int(end)) for start, end in data["marks"])
    return SearchHit(**{**_known(SearchHit, data), "marks": marks})


def question_from_json(data: Mapping[str, Any]) -> ApprovalPrompt:
    route = Route(**_known(Route, data["route"]))
    return ApprovalPrompt(**{**_known(ApprovalPrompt, data), "route": route})


def watch_event_to_json(event: WatchEvent) -> dict[str, Any]:
    """The event's fields, with its `type` first."""
    if isinstance(event, Delivered):
        return {"type": event.type, **asdict(event)}
    return event_to_json(event)


def watch_event_from_json(data: Mapping[str, Any]) -> WatchEvent:
    """Raises `KoreError` for a type that this version does not know."""
    if data.get("type") == Delivered.type:
        return Delivered(**_known(Delivered, data))
    return event_from_json(data)


def error_to_json(error: KoreError) -> dict[str, Any]:
    return {"code": error.code, "message": str(error), "hint": error.hint}


def error_from_json(data: Mapping[str, Any]) -> KoreError:
    """The error that the other side raised; of its class only what callers tell apart."""
    told_apart: dict[str | None, type[KoreError]] = {
        cls.code: cls for cls in (ConfigError, ConnectionLost, HandedOver)
    }
    cls = told_apart.get(data.get("code"), KoreError)
    error = cls(str(data.get("message", "")), hint=data.get("hint"))
    error.code = str(data.get("code", KoreError.code))
    return error


def encode_line(data: Mapping[str, Any]) -> bytes:
    return dumps(data).encode() + b"\n"


def decode_object(line: bytes) -> dict[str, Any]:
    """One JSON object. Raises `KoreError` for anything else."""
    try:
        data = json.loads(line)
    except ValueError as exc:
        raise KoreError("the control socket carried something that is not JSON") from exc
    if not isinstance(data, dict):
        raise KoreError(f"the control socket carried {type(data).__name__}, expected an object")
    return data


def is_own_user(connection: socket.socket) -> bool:
    """Whether the other end runs as this user or root (SO_PEERCRED, unix(7)).

    Where the system does not tell, the socket's mode 0600 is the guard.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, size))
    return uid in (os.getuid(), 0)


def _known(cls: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that this version knows, so that a newer peer may send more."""
    return {field.name: data[field.name] for field in fields(cls) if field.name in data}
