"""The layers of the configuration: files, environment, command line; later ones win key by key."""

import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from gateway.settings.document import kind_of, parse
from gateway.settings.place import Key, Place, Value, dotted, printable
from gateway.settings.schema import Section, Settings

RESERVED = ("HOME", "CONFIG")
# What a folder brings along may set these and no more: nothing that names an address, a key,
# a program or a rule.
HARMLESS = {
    ("agent", "max_iterations"),
    ("agent", "temperature"),
    ("agent", "max_tokens"),
    ("agent", "thinking"),
}
HARMLESS_SECTIONS = {"context", "tools"}
_WORDS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
_WORDS |= {"on": True, "off": False}


@dataclass(slots=True)
class Layers:
    """Merges layer over layer; `complaints` collects one line for each thing that is wrong."""

    values: dict[Key, Value] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def add_file(self, found: Mapping[str, Any], place: Place) -> None:
        for section, content in found.items():
            if section in whole_sections():
                self._put((section,), content, place)
            elif section not in catalogue():
                self._complain(place, (section,), f"unknown section{_guess(section, _sections())}")
            elif not isinstance(content, dict):
                self._complain(
                    place, (section,), f"found {kind_of(content)}, expected an object with its keys"
                )
            else:
                for key, value in content.items():
                    if self._known(section, key, place):
                        self._put((section, key), value, place)

    def add_environment(self, environ: Mapping[str, str], cwd: Path) -> None:
        """Every `KORE_…` variable that is meant for us. An empty one counts as not set."""
        origin: dict[Key, str] = {}
        for name in sorted(environ):
            rest = name.removeprefix("KORE_")
            if rest == name or rest in RESERVED or not environ[name]:
                continue
            place = Place("environment", name, cwd)
            key = self._key_of(rest, place)
            if key is None:
                continue
            if key in origin:
                self._complain(place, key, f"set twice, also by {origin[key]}; keep one of them")
            origin[key] = name
            self._put(key, self.coerce(key, environ[name], place), place)

    def add_overrides(self, overrides: Mapping[str, Any], cwd: Path) -> None:
        """`{"agent.model": …}` from the command line; None means that it was not given."""
        place = Place("command line", "command line", cwd)
        for name, value in overrides.items():
            if value is None:
                continue
            section, _, key = name.partition(".")
            if section in whole_sections() and not key:
                self._put((section,), value, place)
            elif section not in catalogue():
                self._complain(place, (section,), f"unknown section{_guess(section, _sections())}")
            elif self._known(section, key, place):
                text = isinstance(value, str)
                found = self.coerce((section, key), value, place) if text else value
                self._put((section, key), found, place)

    def coerce(self, key: Key, text: str, place: Place) -> Any:
        """What a text from outside JSON means for a key; left as it is when it means nothing."""
        kinds = leaf_types(key)
        if kinds & {tuple, dict}:
            try:
                return parse(text)
            except ValueError as exc:
                example = "[…]" if tuple in kinds else "{…}"
                reason = getattr(exc, "msg", str(exc))
                self._complain(place, key, f"expected JSON such as {example}: {reason}")
                return () if tuple in kinds else {}
        if text == "null" and type(None) in kinds:
            return None
        if bool in kinds:
            return _WORDS.get(text.lower(), text)
        for number in (int, float):
            if number in kinds:
                try:
                    return number(text)
                except ValueError:
                    continue
        return text

    def _put(self, key: Key, value: Any, place: Place) -> None:
        if place.kind == "project" and key not in HARMLESS and key[0] not in HARMLESS_SECTIONS:
            self._complain(
                place,
                key,
                "a project's own file may not set this; put it into the user's config.json",
            )
            return
        self.values[key] = Value(value, place)

    def _known(self, section: str, key: str, place: Place) -> bool:
        if key in catalogue()[section]:
            return True
        self._complain(place, (section, key), f"unknown key{_guess(key, catalogue()[section])}")
        return False

    def _key_of(self, rest: str, place: Place) -> Key | None:
        lowered = rest.lower()
        if lowered in whole_sections():
            return (lowered,)
        for section, keys in catalogue().items():
            prefix = f"{section.upper()}_"
            if rest.upper().startswith(prefix):
                key = rest[len(prefix) :].removeprefix("_").lower()
                if key in keys and rest == rest.upper():
                    return (section, key)
                names = {f"{prefix}{name.upper()}": name for name in keys}
                self._stray(rest, names, place, certain=True)
                return None
        self._stray(rest, _environment_names(), place, certain=False)
        return None

    def _stray(
        self, rest: str, names: Mapping[str, Any] | tuple[str, ...], place: Place, *, certain: bool
    ) -> None:
        """A name close to one of ours is a slip of the pen; a distant one is somebody else's."""
        single = rest.replace("__", "_").upper()
        close = get_close_matches(single, list(names), n=1, cutoff=0.5 if certain else 0.85)
        if close:
            self.complaints.append(f"{place}: unknown name; did you mean KORE_{close[0]}?")
        elif certain:
            known = ", ".join(f"KORE_{name}" for name in names)
            self.complaints.append(f"{place}: unknown name; expected one of {known}")

    def _complain(self, place: Place, key: Key, text: str) -> None:
        self.complaints.append(f"{place}: {dotted(key)}: {text}")


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
    info = Settings.model_fields[key[0]]
    if len(key) > 1:
        section = info.annotation
        assert isinstance(section, type)
        assert issubclass(section, Section)
        info = section.model_fields[key[1]]
    return frozenset(_types(info.annotation))


def _types(annotation: Any) -> set[type]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _types(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return set().union(*(_types(arg) for arg in get_args(annotation)))
    if origin is Literal:
        return {str}
    return {origin or annotation}


def _sections() -> tuple[str, ...]:
    return tuple(Settings.model_fields)


def _environment_names() -> tuple[str, ...]:
    pairs = [f"{s}_{key}" for s, keys in catalogue().items() for key in keys]
    return tuple(name.upper() for name in [*pairs, *whole_sections()])


def _guess(name: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(printable(name).lower(), known, n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{close[0]}"?'
    return f"; expected one of {', '.join(known)}"
