"""`@frozen`: a frozen dataclass with slots, created in a quarter of the time.

`dataclass` writes and compiles six methods for every class: with 270 classes, that took a fifth of
Kore's startup time (ADR 0051). Here `__init__` is compiled once for all classes of the same shape;
the other methods are shared. `fields`, `replace`, `asdict`, `match` and type checkers see a frozen
dataclass.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, is_dataclass
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class immutable, with comparison and hashing by its fields.

    Every field is a positional parameter of `__init__` unless it has `init=False`; with
    `kw_only=True` it is a keyword parameter, so that a subclass may add fields without a default.
    `InitVar` is not supported. A subclass of a frozen class must be `@frozen`, too.
    """
    own = vars(cls)
    # Without a docstring `dataclass` would derive one from the signature, which is slow.
    cls.__doc__ = cls.__doc__ or cls.__name__
    record_type: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    parts = fields(record_type)
    record_type.__init__ = _init(record_type, parts)
    record_type._compared = _reader([part.name for part in parts if part.compare])
    for name, method in _SHARED.items():
        if name not in own:
            setattr(record_type, name, method)
    return record_type  # type: ignore[no-any-return]  # dataclass() gives what it was given


def stable_repr(value: object) -> str:
    """Return a text for a value that is the same in every process.

    It contains all fields of a record except those with `repr=False`, and sets in order.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = [
            f"{part.name}={stable_repr(getattr(value, part.name))}"
            for part in fields(value)
            if part.repr
        ]
        return f"{type(value).__qualname__}({', '.join(parts)})"
    if isinstance(value, Mapping):
        items = sorted(f"{stable_repr(key)}: {stable_repr(each)}" for key, each in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(stable_repr, value)))}}}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(stable_repr, value))})"
    return repr(value)


def _init(record_type: Any, parts: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Return `__init__`: a call by name is several times as fast as a loop over the fields."""
    globals_: dict[str, Any] = {"made": _FACTORY_DEFAULT}
    names: list[str] = []
    defaults: list[object] = []
    keyword_defaults: dict[str, object] = {}
    parameters, body = ["self"], []
    for n, part in enumerate(sorted(parts, key=lambda part: bool(part.kw_only))):
        value = f"field{n}"
        if part.default_factory is not MISSING:
            globals_[f"make{n}"] = part.default_factory
            value = f"make{n}() if {value} is made else {value}" if part.init else f"make{n}()"
        elif not part.init and part.default is MISSING:
            continue
        elif not part.init:
            globals_[value] = part.default
        if part.init:
            if part.kw_only and "*" not in parameters:
                parameters.append("*")
            parameters.append(f"field{n}")
            names.append(part.name)
            has_factory = part.default_factory is not MISSING
            default = _FACTORY_DEFAULT if has_factory else part.default
            if part.kw_only and default is not MISSING:
                keyword_defaults[part.name] = default
            elif default is not MISSING:
                defaults.append(default)
            elif defaults and not part.kw_only:
                raise TypeError(f"field {part.name!r} without a default follows one with a default")
        # The slot's own setter, which bypasses the `__setattr__` that rejects changes.
        globals_[f"set{n}"] = getattr(record_type, part.name).__set__
        body.append(f" set{n}(self, {value})")
    if hasattr(record_type, "__post_init__"):
        body.append(" self.__post_init__()")
    source = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(body) or " pass")
    code = _compile(source).replace(co_varnames=("self", *names))
    init: Any = FunctionType(code, globals_, "__init__", tuple(defaults))
    init.__kwdefaults__ = keyword_defaults or None
    init.__qualname__ = f"{record_type.__qualname__}.__init__"
    init.__annotations__ = {part.name: part.type for part in parts if part.init} | {"return": None}
    return init  # type: ignore[no-any-return]


@cache
def _compile(source: str) -> CodeType:
    """Compile an `__init__` with numbered fields, which fits all classes of the same shape.

    Compiling takes twice as long as everything else about a class.
    """
    namespace: dict[str, Any] = {}
    exec(source, namespace)  # noqa: S102 - composed of numbers
    code: CodeType = namespace["__init__"].__code__
    return code


def _reader(names: list[str]) -> Callable[[Any], object]:
    """Return a reader of the fields that distinguish a record from others of its class."""
    return attrgetter(*names) if names else type


class _Made:
    """Placeholder for a default that is created for each record."""

    def __repr__(self) -> str:
        return "<made for each>"


_FACTORY_DEFAULT = _Made()


def _repr(self: Any) -> str:
    values = (f"{part.name}={getattr(self, part.name)!r}" for part in fields(self) if part.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _eq(self: Any, other: object) -> Any:
    read = self._compared
    return read(self) == read(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _setattr(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> dict[str, Any]:
    """Return the state for `copy` and `pickle`."""
    return {part.name: getattr(self, part.name) for part in fields(self)}


def _setstate(self: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        object.__setattr__(self, name, value)


_SHARED = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
