"""YAML nodes as a policy file may hold them; what is something else becomes a mistake."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from agent.frozen import frozen

if TYPE_CHECKING:
    from yaml import Node

_SHOWN = 20
_KINDS = {"mapping": "a map", "sequence": "a list"}
_SCALARS = {
    "str": "a text",
    "null": "nothing",
    "bool": "true or false",
    "int": "a number",
    "float": "a number",
    "timestamp": "a date",
}


@dataclass(slots=True)
class Mistakes:
    """One line for each thing that is wrong with a file, in its order."""

    source: str
    lines: list[tuple[int, str]] = field(default_factory=list)
    # Nodes that were read already: one that comes again is an alias, which could repeat itself.
    seen: set[int] = field(default_factory=set)

    def raise_any(self) -> None:
        """Raises `ConfigError` when there are any."""
        if not self.lines:
            return
        lines = [line for _, line in sorted(dict.fromkeys(self.lines))]
        more = len(lines) - _SHOWN
        shown = lines[:_SHOWN] + ([f"{self.source}: … and {more} more"] if more > 0 else [])
        raise ConfigError("\n".join(shown))


@frozen
class Place:
    """Where in the file a value stands: `roles.writer.tools`."""

    mistakes: Mistakes
    keys: tuple[str, ...] = ()

    def below(self, key: str) -> "Place":
        return Place(self.mistakes, (*self.keys, _printable(key)))

    def wrong(self, node: "Node", said: str) -> None:
        line = node.start_mark.line + 1
        key = f"{'.'.join(self.keys)}: " if self.keys else ""
        self.mistakes.lines.append((line, f"{self.mistakes.source}: line {line}: {key}{said}"))

    def first_time(self, node: "Node") -> bool:
        """False for a node that an alias (`*name`) has led to; that is a mistake."""
        if id(node) in self.mistakes.seen:
            self.wrong(node, "an alias (*name) leads here, expected the value written out")
            return False
        self.mistakes.seen.add(id(node))
        return True


def pairs(
    node: "Node", place: Place, known: Sequence[str] = ()
) -> Iterator[tuple[str, tuple["Node", Place]]]:
    """The keys of a map, each once, with their values and places; only `known` ones, if given."""
    if not place.first_time(node):
        return
    if shape(node) != "mapping":
        place.wrong(node, f"found {kind(node)}, expected a map of keys and values")
        return
    taken: set[str] = set()
    for key_node, value in node.value:
        key = text(key_node, place)
        if key is None:
            continue
        at = place.below(key)
        if key in taken:
            at.wrong(key_node, "stands there twice")
        elif known and key not in known:
            at.wrong(key_node, f"unknown key{guess(key, known)}")
        else:
            taken.add(key)
            yield key, (value, at)


def text(node: "Node", place: Place) -> str | None:
    """A name or another short text; None after a mistake."""
    if shape(node) != "scalar" or kind(node) != "a text":
        quotes = "; put it in quotes" if shape(node) == "scalar" and node.value else ""
        place.wrong(node, f"found {kind(node)}{_quoted(node)}, expected a text{quotes}")
        return None
    value = str(node.value)
    if not value.strip() or not value.isprintable():
        place.wrong(node, "found an empty or unprintable text, expected a plain one")
        return None
    return value


def texts(node: "Node", place: Place) -> tuple[str, ...]:
    """A list of texts."""
    if not place.first_time(node):
        return ()
    if shape(node) != "sequence":
        place.wrong(node, f"found {kind(node)}{_quoted(node)}, expected a list such as [a, b]")
        return ()
    found = (text(item, place) for item in node.value)
    return tuple(item for item in found if item is not None)


def flag(node: "Node", place: Place) -> bool:
    """true or false; false after a mistake."""
    if shape(node) == "scalar" and kind(node) == "true or false":
        return str(node.value).casefold() in ("true", "yes", "on")
    place.wrong(node, f"found {kind(node)}{_quoted(node)}, expected true or false")
    return False


def shape(node: "Node") -> str:
    """`mapping`, `sequence` or `scalar`."""
    return str(getattr(node, "id", "scalar"))


def kind(node: "Node") -> str:
    """What a node is, in words."""
    name = str(node.tag).rpartition(":")[2]
    return _KINDS.get(shape(node)) or _SCALARS.get(name, "something special")


def guess(name: str, known: Iterable[str]) -> str:
    """The end of a complaint about an unknown name: the one that was meant, or all there are."""
    known = sorted(known)
    from difflib import get_close_matches

    close = get_close_matches(name.casefold(), known, n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{close[0]}"?'
    return f"; expected one of {', '.join(known)}"


def _quoted(node: "Node") -> str:
    if shape(node) != "scalar" or not node.value:
        return ""
    return f' "{_printable(str(node.value))}"'


def _printable(value: str) -> str:
    clean = "".join(c if c.isprintable() else "?" for c in value[:41])
    return clean if len(clean) <= 40 else clean[:40] + "…"
