"""The table of control calls, read from the signatures of `Service`."""

import inspect
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from agent.errors import KoreError
from agent.records import frozen
from gateway.control.codec import decode, encode
from gateway.control.service import Service

# How a result travels: in one line, as a line for each item, or as lines until the client leaves.
Shape = Literal["value", "list", "stream"]


@frozen
class Call:
    """One call. `result` is the type of the value, or of one item of a list or a stream."""

    name: str
    summary: str
    arguments: Mapping[str, Any]
    signature: inspect.Signature
    shape: Shape
    result: Any

    def encode_arguments(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON form. Raises TypeError for arguments that the call does not have."""
        values = self.signature.bind(*args, **kwargs).arguments
        return {name: encode(self.arguments[name], value) for name, value in values.items()}

    def decode_arguments(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """What to call the method with. Raises `KoreError` for what is missing, unknown or of the
        wrong type."""
        for name in data:
            if name not in self.arguments:
                raise KoreError(f"{self.name}: unknown argument {name!r}")
        for name, parameter in self.signature.parameters.items():
            if name not in data and parameter.default is parameter.empty:
                raise KoreError(f"{self.name}: the argument {name!r} is missing")
        return {
            name: decode(self.arguments[name], value, f"{self.name}.{name}")
            for name, value in data.items()
        }

    def encode_result(self, value: Any) -> Any:
        return encode(self.result, value)

    def decode_result(self, data: Any) -> Any:
        return decode(self.result, data, self.name)


@cache
def call_names() -> tuple[str, ...]:
    """All calls, in the order in which `Service` declares them."""
    parts = (vars(part) for part in Service.__mro__)
    return tuple(
        name
        for part in parts
        for name, method in part.items()
        if inspect.isfunction(method) and not name.startswith("_")
    )


@cache
def find_call(name: str) -> Call | None:
    """The call of this name; None when there is none."""
    if name not in call_names():
        return None
    method = getattr(Service, name)
    hints = get_type_hints(method)
    shape, result = _shape_of(hints.pop("return"))
    own, *parameters = inspect.signature(method).parameters.values()
    assert own.name == "self"
    signature = inspect.Signature(parameters)
    summary = " ".join((inspect.getdoc(method) or "").split())
    return Call(name, summary, MappingProxyType(hints), signature, shape, result)


def _shape_of(result: Any) -> tuple[Shape, Any]:
    origin = get_origin(result)
    if origin is AbstractAsyncContextManager:
        (events,) = get_args(result)[:1]
        assert get_origin(events) is AsyncIterator
        return "stream", get_args(events)[0]
    if origin is Sequence:
        return "list", get_args(result)[0]
    return "value", result
