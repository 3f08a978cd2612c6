"""Layers of the configuration: sources of pydantic-settings that record their keys."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from agent.i18n import t
from agent.text.similar_names import similar_names
from gateway.config.channel_section import built_in_sections, environment_variable
from gateway.config.json_files.document import kind_of, parse
from gateway.config.key_catalog import (
    catalogue,
    default_of,
    environment_names,
    guess,
    guess_section,
    is_deferred,
    is_harmless,
    item_types,
    leaf_types,
    path_keys,
    whole_sections,
)
from gateway.config.origin import Key, Value, ValueOrigin, dotted
from gateway.config.references import MADE, References, has_reference
from gateway.config.schema import Settings

# Variables that are not settings: the folder, the file, the store's key by its name in
# docs/secrets.md, and the tokens of `kore attach` and `kore mcp serve`.
RESERVED = ("HOME", "CONFIG", "STORE_KEY", "TOKEN", "MCP_TOKEN")
_SERVERS = ("mcp_servers",)
_WORDS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
_WORDS |= {"on": True, "off": False}


class Layer(PydanticBaseSettingsSource):
    """Values of a layer; `complaints` collects one line for each error in them.

    A layer is called after the layers above it, and returns usable values only for keys that they
    have not set.
    """

    def __init__(self, references: References) -> None:
        super().__init__(Settings)
        self.references = references
        self.values: dict[Key, Value] = {}
        self.complaints: list[str] = []

    def __call__(self) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key in filter(self._open, list(self.values)):
            self.values[key] = self._ready(key, self.values[key])
            section = tree if len(key) == 1 else tree.setdefault(key[0], {})
            section[key[-1]] = self.values[key].value
        return tree

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Unused: `__call__` returns all sections at once."""
        raise NotImplementedError

    def _open(self, key: Key) -> bool:
        """Return whether no layer above sets this key; lists and maps are set as a whole."""
        above = self.current_state
        if len(key) > 1:
            above = above.get(key[0], {})
        return key[-1] not in above

    def _ready(self, key: Key, entry: Value) -> Value:
        if entry.place.kind != "project" and has_reference(entry.value):
            value = self.references.expand(entry.value, key, entry.place)
            lacking = any(variable.loc[:2] == key for variable in self.references.missing)
            if lacking and len(key) > 1 and (self.references.is_partial or is_deferred(key[0])):
                value = default_of(key)
            elif isinstance(value, str) and not has_reference(value) and len(key) > 1:
                value = self._coerce(key, value, entry.place)
            entry = Value(value, entry.place, quotable=False)
        if key not in path_keys() or not isinstance(entry.value, str | Path):
            return entry
        try:
            path = self.references.absolute(str(entry.value), entry.place)
        except (RuntimeError, ValueError):
            message = t("found a ~name without a home folder, expected a path")
            self._complain(entry.place, key, message)
            return entry
        return Value(path, entry.place, entry.quotable)

    def _coerce(self, key: Key, text: str, place: ValueOrigin) -> Any:
        """Convert a text from outside JSON for a key; a meaningless text is unchanged."""
        try:
            return parse_for(key, text)
        except ValueError as exc:
            self._complain(place, key, str(exc))
            return () if tuple in leaf_types(key) else {}

    def _check_known(self, place: ValueOrigin, *loc: str) -> bool:
        """Return whether the schema has this section, or this key of a section with keys."""
        names = catalogue().get(loc[0], ()) if loc[1:] else tuple(Settings.model_fields)
        if loc[-1] not in names:
            suggestion = (guess if loc[1:] else guess_section)(loc[-1], names)
            message = t(
                "unknown key{guess}" if loc[1:] else "unknown section{guess}", guess=suggestion
            )
            self._complain(place, loc, message)
        return loc[-1] in names

    def _complain(self, place: ValueOrigin, key: Key, text: str) -> None:
        self.complaints.append(f"{place}: {dotted(key)}: {text}")


def parse_for(key: Key, text: str) -> Any:
    """Parse a text from outside JSON for a key; a meaningless text is unchanged.

    Raises `ValueError` for invalid JSON where the key is a list or a map.
    """
    kinds = leaf_types(key)
    if tuple in kinds and str not in kinds and (items := _items(key, text)) is not None:
        return items
    if kinds & {tuple, dict} and (str not in kinds or text.startswith("[")):
        try:
            return parse(text)
        except ValueError as exc:
            example = "[…]" if tuple in kinds else "{…}"
            reason = getattr(exc, "msg", str(exc))
            message = t("expected JSON such as {example}: {reason}", example=example, reason=reason)
            raise ValueError(message) from None
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


def _items(key: Key, text: str) -> list[Any] | None:
    """Return the items of a plain list such as `123,456`; None for JSON, or a list of objects."""
    kinds = item_types(key)
    if text[:1] in ("[", "{", '"') or text == "null" or not kinds & {str, int}:
        return None
    items = [item.strip() for item in text.split(",")]
    is_number = str not in kinds
    return [int(item) if is_number and item.isdecimal() else item for item in items if item]


class CommandLineLayer(Layer):
    """`{"agent.model": …}` from the command line; None is an absent option."""

    def __init__(self, overrides: Mapping[str, Any], cwd: Path, references: References) -> None:
        super().__init__(references)
        place = ValueOrigin("command line", "command line", cwd)
        for name, value in overrides.items():
            if value is None:
                continue
            section, _, key = name.partition(".")
            if section in whole_sections() and not key:
                self.values[section,] = Value(value, place)
            elif self._check_known(place, section) and self._check_known(place, section, key):
                text = isinstance(value, str)
                coerced = self._coerce((section, key), value, place) if text else value
                self.values[section, key] = Value(coerced, place)


class EnvironmentLayer(Layer):
    """Every `KORE_…` variable that names a setting. An empty variable counts as unset.

    `unknown` are the names of the others, which may belong to other programs.
    """

    def __init__(self, cwd: Path, references: References) -> None:
        super().__init__(references)
        self.unknown: list[str] = []
        prefix, environ = self.config["env_prefix"], references.environ
        for name in sorted(environ):
            rest = name.removeprefix(prefix)
            if rest == name or rest in RESERVED or not environ[name]:
                continue
            place = ValueOrigin("environment", name, cwd)
            key = self._key_of(rest, place)
            if key is None:
                continue
            if key in self.values:
                other = self.values[key].place.name
                message = t("set twice, also by {other}; keep one of them", other=other)
                self._complain(place, key, message)
            self.values[key] = Value(self._coerce(key, environ[name], place), place)

    def _key_of(self, rest: str, place: ValueOrigin) -> Key | None:
        lowered = rest.lower()
        if lowered in whole_sections():
            return (lowered,)
        for section, keys in catalogue().items():
            prefix = f"{section.upper()}_"
            if rest.upper().startswith(prefix):
                key = rest[len(prefix) :].removeprefix("_").lower()
                if key in keys and rest == rest.upper():
                    return (section, key)
                names = [f"{prefix}{name.upper()}" for name in keys]
                self._misplaced(rest, names, place, certain=True)
                return None
        self._misplaced(rest, environment_names(), place, certain=False)
        return None

    def _misplaced(
        self, rest: str, names: Sequence[str], place: ValueOrigin, *, certain: bool
    ) -> None:
        """Report a name close to a known one as a typo; others belong to other programs."""
        single = rest.replace("__", "_").upper()
        close = similar_names(single, names, cutoff=0.5 if certain else 0.85)
        if close:
            message = t(
                "{place}: unknown name; did you mean KORE_{close}?", place=place, close=close[0]
            )
            self.complaints.append(message)
        elif certain:
            names_expected = ", ".join(f"KORE_{name}" for name in names)
            message = t(
                "{place}: unknown name; expected one of {known}", place=place, known=names_expected
            )
            self.complaints.append(message)
        elif not place.name.startswith(MADE):
            self.unknown.append(place.name)


class FileLayer(Layer):
    """Object in a configuration file, the user's own or a project's."""

    def __init__(
        self, sections: Mapping[str, Any], place: ValueOrigin, references: References
    ) -> None:
        super().__init__(references)
        for section, content in sections.items():
            if section in whole_sections():
                self._put((section,), content, place)
            elif self._check_known(place, section):
                if not isinstance(content, dict):
                    kind = kind_of(content)
                    message = t("found {kind}, expected an object with its keys", kind=kind)
                    self._complain(place, (section,), message)
                    continue
                for key, value in content.items():
                    if self._check_known(place, section, key):
                        self._put((section, key), value, place)

    def _put(self, key: Key, value: Any, place: ValueOrigin) -> None:
        if place.kind == "project" and not is_harmless(key):
            message = t("a project's own file cannot set this; set it in the user's config.json")
            self._complain(place, key, message)
        else:
            self.values[key] = Value(value, place)


class ForeignLayer(Layer):
    """Settings from a file of another program, below all of our own files.

    With `adds_servers`, its MCP servers are added to the servers in the layers above, which take
    precedence if the names are equal.
    """

    def __init__(
        self,
        values: Mapping[Key, Any],
        place: ValueOrigin,
        references: References,
        *,
        adds_servers: bool = False,
    ) -> None:
        super().__init__(references)
        self.values = {key: Value(value, place, quotable=False) for key, value in values.items()}
        self._adds_servers = adds_servers and _SERVERS in values

    def __call__(self) -> dict[str, Any]:
        above = self.current_state.get(_SERVERS[0], {})
        if not self._adds_servers or not isinstance(above, dict):
            return super().__call__()
        entry = self.values[_SERVERS]
        more = {name: item for name, item in entry.value.items() if name not in above}
        self.values[_SERVERS] = ready = self._ready(_SERVERS, replace(entry, value=more))
        for name, server in ready.value.items():
            self.values[*_SERVERS, name] = replace(ready, value=server)
        return super().__call__() | {_SERVERS[0]: ready.value}

    def _open(self, key: Key) -> bool:
        """Return whether a key is open.

        Models and their names belong together: either all or none are taken from a file.
        """
        if self._adds_servers and key[0] == _SERVERS[0]:
            return False
        if key[0] in ("model_list", "profiles") and "model_list" in self.current_state:
            return False
        return super()._open(key)


class DefaultsLayer(Layer):
    """Defaults of the schema that depend on Kore's folder or the environment.

    A channel whose credentials are all in Kore's own variables is enabled.
    """

    def __init__(self, references: References) -> None:
        super().__init__(references)
        place = ValueOrigin("default", "default", references.home)
        self.values = {key: Value(default_of(key), place) for key in path_keys()}
        for name, section in built_in_sections().items():
            variables = [environment_variable(name, key) for key in section.credentials]
            if variables and all(map(references.environ.get, variables)):
                self.values[name, "enabled"] = Value(True, place)
