"""Wire format of the control socket.

A request is `POST /<call>` over HTTP/1.0 with its arguments as a JSON object, one connection each.
`calls.py` contains the calls. The response depends on the shape of the call's result:

- a value: `{"value": …}`;
- a list: a line `{"item": …}` for each item, then `{"end": true}`;
- a stream: `{"ready": true}`, then a line `{"item": …}` for each event until a side disconnects.

A failed call is answered with status 400 and `{"error": {"code", "message", "hint"}}`; a list or a
stream that fails later ends with such a line. `POST /hello` returns `protocol` and `pid`.
"""

import json
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.serialization import (
    dumps,
    event_from_json,
    event_to_json,
    message_from_json,
    message_to_json,
)
from gateway.core.errors import ConnectionLost, HandedOver, QueueFull
from gateway.core.records import (
    Delivered,
    HistoryReset,
    MessageStored,
    SessionChanged,
    SessionEvent,
    SessionIdle,
    TurnStored,
)

# Incremented with each change of the calls or the wire format; `connect` refuses another number.
PROTOCOL = 37
HELLO = "hello"
REQUEST_LIMIT_BYTES = 4 * 1024 * 1024
LINE_LIMIT_BYTES = 16 * 1024 * 1024


def watch_event_to_json(event: SessionEvent) -> dict[str, Any]:
    """Return the event's fields, its `type` first."""
    match event:
        case Delivered():
            return {"type": event.type, **asdict(event)}
        case MessageStored(seq, at, message):
            form = message_to_json(message)
            return {"type": event.type, "seq": seq, "at": at, "message": form}
        case TurnStored() | SessionIdle() | HistoryReset() | SessionChanged():
            return {"type": event.type}
    return event_to_json(event)


def watch_event_from_json(data: Mapping[str, Any]) -> Any:
    """Return the event. Raises `KoreError` for a type that this version does not know."""
    match data.get("type"):
        case Delivered.type:
            return Delivered(
                **{part.name: data[part.name] for part in fields(Delivered) if part.name in data}
            )
        case MessageStored.type:
            return MessageStored(data["seq"], data["at"], message_from_json(data["message"]))
        case TurnStored.type:
            return TurnStored()
        case SessionIdle.type:
            return SessionIdle()
        case HistoryReset.type:
            return HistoryReset()
        case SessionChanged.type:
            return SessionChanged()
    return event_from_json(data)


def error_to_json(error: KoreError) -> dict[str, Any]:
    return {"code": error.code, "message": str(error), "hint": error.hint}


def error_from_json(data: Mapping[str, Any]) -> KoreError:
    """Return the error that the other side raised, as an instance of a class that callers catch."""
    classes: dict[str | None, type[KoreError]] = {
        cls.code: cls for cls in (ConfigError, ConnectionLost, HandedOver, QueueFull)
    }
    cls = classes.get(data.get("code"), KoreError)
    error = cls(str(data.get("message", "")), hint=data.get("hint"))
    error.code = str(data.get("code", KoreError.code))
    return error


def encode_line(data: Mapping[str, Any]) -> bytes:
    return dumps(data).encode() + b"\n"


def decode_object(line: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises `KoreError` for anything else."""
    try:
        data = json.loads(line)
    except ValueError as exc:
        raise KoreError(t("invalid response on the control socket: not JSON")) from exc
    if not isinstance(data, dict):
        raise KoreError(
            t(
                "invalid response on the control socket: found {kind}, expected an object",
                kind=type(data).__name__,
            )
        )
    return data


def is_own_user(connection: socket.socket) -> bool:
    """Return whether the other end runs as this user or root (SO_PEERCRED, unix(7)).

    On systems without this option, the socket's mode 0600 protects it.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, size))
    return uid in (os.getuid(), 0)
