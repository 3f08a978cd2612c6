"""References in values: `${NAME}`, `${NAME:-TEXT}` and `~`.

`${NAME}` is a variable in the environment, else in secrets.json; TEXT is used if it is in neither.
`~` is a folder.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from agent.security.secret_values import holds_secret
from gateway.config.json_files.document import kind_of, private, read_object
from gateway.config.key_catalog import is_deferred
from gateway.config.origin import Loc, MissingVariable, ValueOrigin, dotted, printable

_DROPPED = ("api_key", "api_base", "proxy", "url")
# Prefix of names in secrets.json that `config set` creates.
MADE = "KORE_SECRET_"
_STORE = "sqlite:///"
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(slots=True)
class References:
    """Resolver that replaces references in strings at any depth and records unresolved ones.

    `complaints` contains a line for each malformed reference and each unresolved reference that is
    always needed; `hidden` are texts that no output may show; `sources` contains the origin of each
    value that is a reference, and `filled` the referenced values by place. With `is_partial`, no
    reference is needed, because secrets are incomplete.
    """

    environ: Mapping[str, str]
    secrets: Mapping[str, str]
    home: Path
    is_partial: bool = False
    missing: list[MissingVariable] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    hidden: list[str] = field(init=False, repr=False)
    sources: dict[Loc, str] = field(default_factory=dict)
    filled: dict[Loc, set[str]] = field(default_factory=dict, repr=False)
    # Names in references, whether they are set or not.
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.hidden = list(declared_secrets(self.secrets))

    def expand(self, value: Any, loc: Loc, place: ValueOrigin) -> Any:
        """Return the value with its references filled in; unresolved references are unchanged.

        A key or an address in a map is then dropped, because a missing value is better than an
        unresolved reference.
        """
        match value:
            case str():
                return self._text(value, loc, place) if "${" in value else value
            case list():
                return [self.expand(item, (*loc, n), place) for n, item in enumerate(value)]
            case dict():
                filled = {key: self.expand(v, (*loc, key), place) for key, v in value.items()}
                missing_keys = {
                    variable.loc[-1] for variable in self.missing if variable.loc[:-1] == loc
                }
                return {
                    k: v for k, v in filled.items() if k not in missing_keys or k not in _DROPPED
                }
            case _:
                return value

    def absolute(self, text: str, place: ValueOrigin) -> str:
        """Return a path, or the URL of an SQLite database, relative to the folder of `place`.

        Raises `ValueError` or `RuntimeError` for a `~name` without a home folder.
        """
        scheme = _STORE if text.startswith(_STORE) else ""
        if text == scheme or (not scheme and "://" in text):
            return text
        path = place.folder / expand_home(text.removeprefix(scheme), self.home, self.environ)
        return f"{scheme}{path}"

    def _text(self, text: str, loc: Loc, place: ValueOrigin) -> str:
        def fill(match: re.Match[str]) -> str:
            # As in a shell, the text after `:-` is for a variable that is unset or empty.
            name, default_mark, default = match[1].partition(":-")
            if not _NAME.fullmatch(name):
                self.complaints.append(
                    t(
                        '{where}: found "${{{name}}}", expected the name of an environment '
                        "variable between the braces",
                        where=f"{place}: {dotted(loc)}",
                        name=printable(name),
                    )
                )
                return match[0]
            self.names.add(name)
            value = self.environ.get(name) or self.secrets.get(name)
            if self.environ.get(name):
                self.sources[loc] = t("environment variable {name}", name=name)
            elif value:
                path = self.home / "secrets.json"
                self.sources[loc] = t("{key} in {place}", key=name, place=path)
            if not value and default_mark:
                return default
            if not value:
                self.missing.append(variable := MissingVariable(loc, name, place))
                if not is_deferred(loc[0]) and not self.is_partial:
                    self.complaints.append(str(variable))
            elif holds_secret(name, value):
                self.hidden.append(value)
            if value:
                self.filled.setdefault(loc, set()).add(value)
            return value or match[0]

        return _REFERENCE.sub(fill, text)


def declared_secrets(secrets: Mapping[str, str]) -> Iterator[str]:
    """Yield the declared secrets in secrets.json.

    These are all values added by a person, and values from `config set` with the name of a secret,
    because `config set` stores all variables and headers of servers.
    """
    for name, value in secrets.items():
        if not name.startswith(MADE) or holds_secret(name, value):
            yield value


def expand_home(text: str, home: Path, environ: Mapping[str, str]) -> Path:
    """Return a path with its `~` filled in; `~/.kore` is always `home`."""
    if text == "~/.kore" or text.startswith("~/.kore/"):
        return home / text[len("~/.kore/") :]
    if text.startswith("~/") and environ.get("HOME"):
        return Path(environ["HOME"]) / text[2:]
    return Path(text).expanduser()


def has_reference(value: Any) -> bool:
    """Return whether a value refers to a variable, at any depth."""
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
    """Return the names and values of secrets.json, which only its owner may be able to read."""
    content = read_object(path)
    if content is None:
        return {}
    if not private(path):
        mode = path.stat().st_mode & 0o777
        raise ConfigError(
            t(
                "{path}: readable by other users (mode {mode:04o}), expected mode 0600",
                path=path,
                mode=mode,
            ),
            hint=f"chmod 600 {path}",
        )
    for name, value in content.items():
        if not isinstance(value, str):
            raise ConfigError(
                t(
                    "{where}: found {found}, expected a string",
                    where=f"{path}: {printable(name)}",
                    found=kind_of(value),
                )
            )
    return content
