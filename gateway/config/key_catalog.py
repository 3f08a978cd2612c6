"""Keys of config.json: their types, defaults and annotations, read from the schema."""

import types
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from agent.i18n import t
from agent.text.similar_names import similar_names
from gateway.config.origin import Key, printable
from gateway.config.python_plugins import PACKAGES, package_channels, package_section
from gateway.config.schema import Settings
from gateway.config.sections import Section
from gateway.config.setting import Setting

_UNANNOTATED = Setting()


@cache
def catalogue() -> dict[str, tuple[str, ...]]:
    """Map each section that has keys to its keys."""
    return {
        name: tuple(info.annotation.model_fields)
        for name, info in Settings.model_fields.items()
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section)
    }


@cache
def whole_sections() -> tuple[str, ...]:
    """Return the sections that are a single value: a list, or a map with names chosen by users."""
    return tuple(name for name in Settings.model_fields if name not in catalogue())


@cache
def all_keys() -> tuple[Key, ...]:
    """Return every key: first keys in sections, then the sections that are a single value."""
    keys = [(section, name) for section, names in catalogue().items() for name in names]
    return (*keys, *((name,) for name in whole_sections()))


def keys_in(settings: Settings) -> tuple[Key, ...]:
    """Return every key, with the keys of enabled channels of packages at the end."""
    sections = package_channels(settings).items()
    return (
        *all_keys(),
        *((PACKAGES, name, key) for name, section in sections for key in section.model_fields),
    )


def key_of(path: Sequence[str]) -> Key:
    """Return the key that contains a path, such as `("model_list",)` for `model_list.0.model`."""
    if path[0] in catalogue():
        return tuple(path[:2])
    return tuple(path[:3] if names_in_package(path) else path[:1])


def names_in_package(path: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of the package's channel that a path leads into; else an empty tuple."""
    if path[0] != PACKAGES or len(path) < 3:
        return ()
    section = package_section(path[1])
    return () if section is None else tuple(section.model_fields)


def origin_of(settings: Settings, key: Key) -> str:
    """Return the origin of a key in words; "default" if no layer sets it."""
    if place := settings.places.get(key):
        return place
    is_package_key = len(key) == 3 and key[0] == PACKAGES
    if is_package_key and key[2] in settings.python_plugins.get(key[1], {}):
        return settings.places.get(key[:1], "default")
    return "default"


@cache
def path_keys() -> tuple[Key, ...]:
    """Return the keys whose value is a path, relative to the folder of its file."""
    return tuple(key for key in all_keys() if setting_at(key).is_path)


def setting_at(path: Sequence[str]) -> Setting:
    """Return the annotation of a key or of a field of its entries; without one, the default."""
    *_, (setting, _) = _steps(path)
    return setting


def is_at_once(key: Key) -> bool:
    """Return whether a running gateway applies a change of this key without a restart."""
    return any(setting.reload == "at_once" for setting, _ in _steps(key))


def is_harmless(key: Key) -> bool:
    """Return whether a project's own file may set this key before it is trusted.

    A key that widens access never is, even in a section that is harmless otherwise.
    """
    is_marked = any(setting.is_harmless for setting, _ in _steps(key))
    return is_marked and not widens_access(key)


def is_deferred(section: object) -> bool:
    """Return whether a missing variable in this section matters only once the section is used."""
    return isinstance(section, str) and setting_at((section,)).is_deferred


def widens_access(path: Sequence[str]) -> bool:
    """Return whether a key, or anything inside it, is annotated as `widens_access`."""
    steps = list(_steps(path))
    inner = section_in(steps[-1][1])
    return any(setting.widens_access for setting, _ in steps) or (
        inner is not None and any(own_setting(info).widens_access for info in _fields(inner))
    )


def section_at(path: Sequence[str]) -> type[Section] | None:
    """Return the model of the object at a path, such as `ModelEntry` at `model_list.0`."""
    *_, (_, annotation) = _steps(path)
    return annotation if _is_section(annotation) else None


def section_in(annotation: Any) -> type[Section] | None:
    """Return the model of an object, or of the entries of a list or map of objects."""
    while annotation is not None and not _is_section(annotation):
        annotation = _entry(annotation)
    section: type[Section] | None = annotation
    return section


def own_setting(info: FieldInfo) -> Setting:
    """Return the annotation of a field itself, without inherited parts."""
    return next((item for item in info.metadata if isinstance(item, Setting)), _UNANNOTATED)


def _steps(path: Sequence[str]) -> Iterator[tuple[Setting, Any]]:
    """Yield annotation and type of each part of a path that the schema defines."""
    annotation: Any = Settings
    for n, part in enumerate(path):
        info = annotation.model_fields.get(part) if _has_fields(annotation) else None
        annotation = _entry(annotation) if info is None else info.annotation
        if n == 1 and path[0] == PACKAGES:
            annotation = package_section(part) or annotation
        yield (_UNANNOTATED if info is None else own_setting(info)), annotation


def _has_fields(annotation: Any) -> bool:
    return annotation is Settings or _is_section(annotation)


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _fields(section: type[Section]) -> Iterator[FieldInfo]:
    """Yield the fields of a section and of the objects inside it."""
    for info in section.model_fields.values():
        yield info
        if (inner := section_in(info.annotation)) is not None:
            yield from _fields(inner)


def _entry(annotation: Any) -> Any:
    """Return the type of an entry of a list or a map; None for other types."""
    arguments = [argument for argument in get_args(annotation) if argument is not Ellipsis]
    return arguments[-1] if get_origin(annotation) in (tuple, dict) else None


def leaf_types(key: Key) -> frozenset[type]:
    """Return the plain types that a key accepts, such as bool, int, tuple or NoneType."""
    return frozenset(_types(_annotation(key)))


def item_types(key: Key) -> frozenset[type]:
    """Return the plain types of the items of a key that is a list."""
    return frozenset(_types(_entry_of_list(_annotation(key))))


def _entry_of_list(annotation: Any) -> Any:
    """Return the type of the items of a list, which may be one of several types."""
    if get_origin(annotation) is Annotated:
        return _entry_of_list(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        parts = map(_entry_of_list, get_args(annotation))
        return next((part for part in parts if part is not None), None)
    return _entry(annotation) if get_origin(annotation) is tuple else None


def choices(key: Key) -> tuple[str, ...]:
    """Return the words that a key accepts; empty if other values are possible."""
    if bool in leaf_types(key):
        return ("true", "false")
    return tuple(_literals(_annotation(key)))


def _annotation(key: Key) -> Any:
    *_, (_, annotation) = _steps(key)
    return annotation


def _literals(annotation: Any) -> list[str]:
    origin = get_origin(annotation)
    if origin is Literal:
        return [str(argument) for argument in get_args(annotation)]
    if origin is Annotated:
        return _literals(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [literal for part in get_args(annotation) for literal in _literals(part)]
    return []


def default_of(key: Key) -> Any:
    """Return the default of a key."""
    info = Settings.model_fields[key[0]]
    return getattr(info.default, key[1]) if key[1:] else info.get_default(call_default_factory=True)


def environment_names() -> tuple[str, ...]:
    """Return every name that an environment variable may have after its prefix."""
    pairs = [f"{section}_{key}" for section, keys in catalogue().items() for key in keys]
    return tuple(name.upper() for name in [*pairs, *whole_sections()])


def guess_section(name: str, sections: tuple[str, ...]) -> str:
    """Return `guess`, or the full key if only its section was left out."""
    owners = [owner for owner, keys in catalogue().items() if name in keys]
    owners = ["agent"] if "agent" in owners else owners
    if len(owners) == 1:
        return t('; did you mean "{close}"?', close=f"{owners[0]}.{name}")
    return guess(name, sections)


def guess(name: str, names: tuple[str, ...]) -> str:
    """Return a hint for an unknown name: a suggestion, or all valid names."""
    close = similar_names(printable(name).lower(), names)
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
