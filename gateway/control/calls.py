"""Table of calls, read from the signatures of `Service`, and their JSON forms."""

import inspect
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from agent.errors import KoreError
from agent.records import frozen
from agent.serialization import RecordCodec, message_from_json, message_to_json
from agent.types import Message
from gateway.control.declaration import CallDeclaration, declaration_of
from gateway.control.protocol import watch_event_from_json, watch_event_to_json
from gateway.control.service import Service
from gateway.core.records import SessionEvent, WatchEvent

CODEC = RecordCodec(
    {
        Message: (message_to_json, message_from_json),
        WatchEvent: (watch_event_to_json, watch_event_from_json),
        SessionEvent: (watch_event_to_json, watch_event_from_json),
    }
)
# A value is sent as one line, a list as a line per item, a stream as lines until the client leaves.
Shape = Literal["value", "list", "stream"]


@frozen
class Call:
    """Call; `result` is the type of the value, or of an item of a list or a stream."""

    name: str
    declaration: CallDeclaration
    summary: str
    arguments: Mapping[str, Any]
    signature: inspect.Signature
    shape: Shape
    result: Any

    def admin_arguments(self, data: Mapping[str, Any]) -> list[str]:
        """Return the names of arguments in `data` that need the scope admin."""
        return [
            name
            for name in self.declaration.admin_arguments
            if name in data and data[name] != self.signature.parameters[name].default
        ]

    def encode_arguments(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON form. Raises TypeError for arguments that the call does not have."""
        values = self.signature.bind(*args, **kwargs).arguments
        return {name: CODEC.encode(self.arguments[name], value) for name, value in values.items()}

    def decode_arguments(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the method. Raises `KoreError` for missing and unknown arguments
        and for values of the wrong type."""
        for name in data:
            if name not in self.arguments:
                raise KoreError(f"{self.name}: unknown argument {name!r}")
        for name, parameter in self.signature.parameters.items():
            if name not in data and parameter.default is parameter.empty:
                raise KoreError(f"{self.name}: the argument {name!r} is missing")
        return {
            name: CODEC.decode(self.arguments[name], value, f"{self.name}.{name}")
            for name, value in data.items()
        }

    def encode_result(self, value: Any) -> Any:
        return CODEC.encode(self.result, value)

    def decode_result(self, data: Any) -> Any:
        return CODEC.decode(self.result, data, self.name)


@cache
def call_names() -> tuple[str, ...]:
    """Return the names of all calls, in the order in which `Service` declares them."""
    return tuple(
        name for name, method in vars(Service).items() if declaration_of(method) is not None
    )


@cache
def find_call(name: str) -> Call | None:
    """Return the call of this name, or None."""
    method = vars(Service).get(name)
    declaration = declaration_of(method)
    if method is None or declaration is None:
        return None
    hints = get_type_hints(method)
    shape, result = _shape_of(hints.pop("return"))
    _, *parameters = inspect.signature(method).parameters.values()
    signature = inspect.Signature(parameters)
    summary = " ".join((inspect.getdoc(method) or "").split())
    return Call(name, declaration, summary, MappingProxyType(hints), signature, shape, result)


def _shape_of(result: Any) -> tuple[Shape, Any]:
    origin = get_origin(result)
    if origin is AbstractAsyncContextManager:
        (events,) = get_args(result)[:1]
        assert get_origin(events) is AsyncIterator
        return "stream", get_args(events)[0]
    if origin is Sequence:
        return "list", get_args(result)[0]
    return "value", result
