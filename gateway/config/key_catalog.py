"""The keys of config.json as the schema has them, and the plain types behind each."""

import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from agent.i18n import t
from gateway.config.origin import Key, printable
from gateway.config.schema import Settings
from gateway.config.sections import Section


@cache
def catalogue() -> dict[str, tuple[str, ...]]:
    """Section -> its keys, for sections with keys of their own."""
    return {
        name: tuple(info.annotation.model_fields)
        for name, info in Settings.model_fields.items()
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section)
    }


@cache
def whole_sections() -> tuple[str, ...]:
    """Sections that are one value: a list, or a map with names of the user's choice."""
    return tuple(name for name in Settings.model_fields if name not in catalogue())


@cache
def leaf_types(key: Key) -> frozenset[type]:
    """The plain types that a key accepts: bool, int, float, str, tuple, dict, NoneType."""
    return frozenset(_types(_annotation(key)))


@cache
def choices(key: Key) -> tuple[str, ...]:
    """The words that a key accepts, where there are only some."""
    if bool in leaf_types(key):
        return ("true", "false")
    return tuple(_literals(_annotation(key)))


def _annotation(key: Key) -> Any:
    info = Settings.model_fields[key[0]]
    if len(key) > 1:
        section = info.annotation
        assert isinstance(section, type)
        assert issubclass(section, Section)
        info = section.model_fields[key[1]]
    return info.annotation


def _literals(annotation: Any) -> list[str]:
    origin = get_origin(annotation)
    if origin is Literal:
        return [str(one) for one in get_args(annotation)]
    if origin is Annotated:
        return _literals(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [one for part in get_args(annotation) for one in _literals(part)]
    return []


def default_of(key: Key) -> Any:
    """The default of a section's key."""
    return getattr(Settings.model_fields[key[0]].default, key[1])


def environment_names() -> tuple[str, ...]:
    """Every name that an environment variable may have after its prefix."""
    pairs = [f"{section}_{key}" for section, keys in catalogue().items() for key in keys]
    return tuple(name.upper() for name in [*pairs, *whole_sections()])


def guess_section(name: str, sections: tuple[str, ...]) -> str:
    """Like `guess`; a key of `agent`, or of one section only, was meant without its section."""
    owners = [one for one, keys in catalogue().items() if name in keys]
    owners = ["agent"] if "agent" in owners else owners
    if len(owners) == 1:
        return t('; did you mean "{close}"?', close=f"{owners[0]}.{name}")
    return guess(name, sections)


def guess(name: str, names: tuple[str, ...]) -> str:
    """The end of a complaint about an unknown name: the one that was meant, or all there are."""
    from difflib import get_close_matches

    close = get_close_matches(printable(name).lower(), names, n=1, cutoff=0.6)
    if close:
        return t('; did you mean "{close}"?', close=close[0])
    return t("; expected one of {known}", known=", ".join(names))


def _types(annotation: Any) -> set[type]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _types(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return set().union(*(_types(arg) for arg in get_args(annotation)))
    if origin is Literal:
        return {str}
    return {origin or annotation}
