"""Origins of configuration values, and their names for people."""

from pathlib import Path
from typing import Any, Literal

from agent.i18n import t
from agent.records import frozen
from agent.text.visible import escape_line

Kind = Literal["file", "project", "environment", "command line", "default"]
# ("agent", "model"), or ("model_list",) for a section that is one value.
Key = tuple[str, ...]
Loc = tuple[str | int, ...]


@frozen
class ValueOrigin:
    """Origin of a value: a file, a variable or a flag. Relative paths in it start at `folder`."""

    kind: Kind
    name: str
    folder: Path

    def __str__(self) -> str:
        if self.kind == "environment":
            return t("environment variable {name}", name=self.name)
        return self.name


@frozen
class Value:
    """Value with its origin.

    `quotable` is false if it may be a secret that an error must not repeat.
    """

    value: Any
    place: ValueOrigin
    quotable: bool = True


@frozen
class MissingVariable:
    """Reference `${name}` to a variable that is not set."""

    loc: Loc
    name: str
    place: ValueOrigin

    def __str__(self) -> str:
        return t(
            "{where}: found ${{{name}}}, but the environment variable {name} is not set; "
            "set it or add it to secrets.json",
            where=f"{self.place}: {dotted(self.loc)}",
            name=self.name,
        )


def dotted(loc: Loc) -> str:
    """Return `("model_list", 0, "api_key")` as `model_list[0].api_key`."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{printable(part)}" if text else printable(part)
    return text


def printable(text: str, limit: int = 60) -> str:
    """Return any text of a file as one short line without invisible characters."""
    clean = escape_line(text[: limit + 1])
    return clean if len(clean) <= limit else clean[:limit] + "…"
