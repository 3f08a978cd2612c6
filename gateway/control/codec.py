"""JSON forms of the values that cross the control socket, derived from their types."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agent.errors import KoreError
from agent.serialization import message_from_json, message_to_json, safe_text
from agent.types import Message
from gateway.control.protocol import watch_event_from_json, watch_event_to_json
from gateway.core.records import SessionEvent, WatchEvent

# What a database can hold.
_LARGEST = 2**63 - 1
_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
# Types with a JSON form of their own.
_FORMS: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    Message: (message_to_json, message_from_json),
    WatchEvent: (watch_event_to_json, watch_event_from_json),
    SessionEvent: (watch_event_to_json, watch_event_from_json),
}


def encode(kind: Any, value: Any) -> Any:
    """The JSON form of a value of type `kind`. A path becomes absolute: the other process may
    work in another folder."""
    if kind in _FORMS:
        return _FORMS[kind][0](value)
    if isinstance(value, Path):
        return str(value.absolute())
    if value is None or kind is Any:
        return value
    if isinstance(kind, type) and is_dataclass(kind):
        return {name: encode(part, getattr(value, name)) for name, part in _hints(kind).items()}
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return encode(_optional(parts), value)
    if origin in (Sequence, list):
        return [encode(parts[0], item) for item in value]
    if origin is tuple:
        return [encode(part, item) for part, item in _pairs(parts, value)]
    if origin in (Mapping, dict):
        return {key: encode(parts[1], item) for key, item in value.items()}
    return value


def decode(kind: Any, data: Any, where: str) -> Any:
    """The value of type `kind`. Raises `KoreError` that names the place, `where`, what was found
    and what was expected. Unknown fields of a dataclass are ignored."""
    if kind is Any:
        return data
    if kind in _FORMS:
        return _FORMS[kind][1](_expect(dict, data, where, "an object"))
    if isinstance(kind, type) and is_dataclass(kind):
        return _decode_record(kind, _expect(dict, data, where, "an object"), where)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if data is None else decode(_optional(parts), data, where)
    if origin is Literal:
        if data not in parts:
            raise _mismatch(data, where, f"one of {', '.join(map(str, parts))}")
        return data
    if origin in (Sequence, list):
        items = _expect(list, data, where, "a list")
        return [decode(parts[0], item, f"{where}[{n}]") for n, item in enumerate(items)]
    if origin is tuple:
        items = _expect(list, data, where, "a list")
        if parts[-1] is not ... and len(parts) != len(items):
            raise _mismatch(data, where, f"{len(parts)} items")
        pairs = enumerate(_pairs(parts, items))
        return tuple(decode(part, item, f"{where}[{n}]") for n, (part, item) in pairs)
    if origin in (Mapping, dict):
        entries = _expect(dict, data, where, "an object")
        return {key: decode(parts[1], item, f"{where}.{key}") for key, item in entries.items()}
    return _decode_scalar(kind, data, where)


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
    if kind is int and type(data) is int and abs(data) > _LARGEST:
        raise _mismatch(data, where, "an integer of at most 64 bits")
    if kind is str and type(data) is str:
        return safe_text(data)
    return _expect(kind, data, where, _NAMES[kind])


def _decode_record(kind: Any, data: Mapping[str, Any], where: str) -> Any:
    hints = _hints(kind)
    for field in fields(kind):
        optional = field.default is not MISSING or field.default_factory is not MISSING
        if field.name not in data and not optional:
            raise KoreError(f"{where}: {field.name!r} is missing")
    return kind(
        **{
            name: decode(part, data[name], f"{where}.{name}")
            for name, part in hints.items()
            if name in data
        }
    )


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    """The types of a dataclass's fields."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _optional(parts: tuple[Any, ...]) -> Any:
    """The type beside None; other unions have a form of their own."""
    (kind,) = (part for part in parts if part is not NoneType)
    return kind


def _pairs(parts: tuple[Any, ...], items: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Each item of a tuple with its type."""
    if parts[-1] is ...:
        return [(parts[0], item) for item in items]
    return list(zip(parts, items, strict=True))


def _expect(kind: Any, data: Any, where: str, expected: str) -> Any:
    # Not isinstance: true is no integer.
    if type(data) is not kind:
        raise _mismatch(data, where, expected)
    return data


def _mismatch(data: Any, where: str, expected: str) -> KoreError:
    actual = f"a {type(data).__name__}" if isinstance(data, list | dict) else repr(data)[:80]
    return KoreError(f"{where}: found {actual}, expected {expected}")
