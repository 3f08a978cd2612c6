"""JSON forms of records, derived from the types of their fields."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agent.errors import KoreError

# The largest integer of a database.
_MAX_INTEGER = 2**63 - 1
_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")

Forms = Mapping[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]]


def safe_text(text: str) -> str:
    """Return the text without lone surrogates, which neither SQLite nor any wire can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.translate(_SURROGATES)
    return text


class RecordCodec:
    """Encodes values as JSON and decodes them, by their types: str, int, float, bool, None,
    `Literal`, `Path`, frozen dataclasses, and sequences and mappings of them.

    `forms` are the two functions of each type with a form of its own.
    """

    def __init__(self, forms: Forms | None = None) -> None:
        self._forms = forms or {}

    def encode(self, kind: Any, value: Any) -> Any:
        """Return the JSON form of a value of type `kind`. A path becomes absolute: another process
        may work in another folder."""
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
        """Return the value of type `kind`. Raises `KoreError` that names the place (`where`), the
        value and what was expected. Unknown fields of a dataclass are ignored."""
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
    """Return the type of an optional value; other unions need a form of their own."""
    (kind,) = (part for part in parts if part is not NoneType)
    return kind


def _pairs(parts: tuple[Any, ...], items: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return each item of a tuple with its type."""
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
