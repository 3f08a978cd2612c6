"""`${NAME}` in values: from the environment, else from secrets.json."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from gateway.settings.document import kind_of, private, read_object
from gateway.settings.place import Loc, Missing, Place, dotted, printable

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(slots=True)
class References:
    """Replaces references in strings at any depth and notes those that lead nowhere."""

    environ: Mapping[str, str]
    secrets: Mapping[str, str]
    missing: list[Missing] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)

    def expand(self, value: Any, loc: Loc, place: Place) -> Any:
        """The value with its references filled in; one that leads nowhere stays as written."""
        match value:
            case str():
                return self._text(value, loc, place) if "${" in value else value
            case list():
                return [self.expand(item, (*loc, n), place) for n, item in enumerate(value)]
            case dict():
                return {key: self.expand(v, (*loc, key), place) for key, v in value.items()}
            case _:
                return value

    def _text(self, text: str, loc: Loc, place: Place) -> str:
        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if not _NAME.fullmatch(name):
                self.malformed.append(
                    f'{place}: {dotted(loc)}: found "${{{printable(name)}}}", expected the '
                    "name of an environment variable between the braces"
                )
                return match[0]
            found = self.environ.get(name) or self.secrets.get(name)
            if not found:
                self.missing.append(Missing(loc, name, place))
                return match[0]
            return found

        return _REFERENCE.sub(fill, text)


def has_reference(value: Any) -> bool:
    """Whether a value refers to a variable, at any depth."""
    match value:
        case str():
            return _REFERENCE.search(value) is not None
        case list():
            return any(has_reference(item) for item in value)
        case dict():
            return any(has_reference(item) for item in value.values())
        case _:
            return False


def read_secrets(path: Path) -> dict[str, str]:
    """The names and values of secrets.json, which only its owner may be able to read."""
    found = read_object(path)
    if found is None:
        return {}
    if not private(path):
        mode = path.stat().st_mode & 0o777
        raise ConfigError(
            f"{path}: others can read it (mode {mode:04o}), expected mode 0600",
            hint=f"chmod 600 {path}",
        )
    for name, value in found.items():
        if not isinstance(value, str):
            raise ConfigError(
                f"{path}: {printable(name)}: found {kind_of(value)}, expected a string"
            )
    return found
