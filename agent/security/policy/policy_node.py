"""YAML nodes as a policy file may hold them; what is something else becomes a mistake."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.text.visible import escape_line

if TYPE_CHECKING:
    from yaml import Node

_SHOWN = 20
_TEXT, _FLAG, _SPECIAL = (
    mark_for_translation("a text"),
    mark_for_translation("true or false"),
    mark_for_translation("something special"),
)
_KINDS = {"mapping": mark_for_translation("a map"), "sequence": mark_for_translation("a list")}
_SCALARS = {
    "str": _TEXT,
    "null": mark_for_translation("no value"),
    "bool": _FLAG,
    "int": mark_for_translation("a number"),
    "float": mark_for_translation("a number"),
    "timestamp": mark_for_translation("a date"),
}


@dataclass(slots=True)
class ErrorCollector:
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
        shown = lines[:_SHOWN]
        if more > 0:
            shown.append(t("{source}: … and {more} more", source=self.source, more=more))
        raise ConfigError("\n".join(shown))


@frozen
class NodeLocation:
    """Where in the file a value stands: `roles.writer.tools`."""

    mistakes: ErrorCollector
    keys: tuple[str, ...] = ()

    def below(self, key: str) -> "NodeLocation":
        return NodeLocation(self.mistakes, (*self.keys, _printable(key)))

    def where(self, node: "Node") -> str:
        """File, line and key, as a mistake begins."""
        line = node.start_mark.line + 1
        key = f"{'.'.join(self.keys)}: " if self.keys else ""
        return t("{source}: line {line}: ", source=self.mistakes.source, line=line) + key

    def wrong(self, node: "Node", said: str) -> None:
        self.mistakes.lines.append((node.start_mark.line + 1, f"{self.where(node)}{said}"))

    def first_time(self, node: "Node") -> bool:
        """False for a node that an alias (`*name`) has led to; that is a mistake."""
        if id(node) in self.mistakes.seen:
            self.wrong(node, t("an alias (*name) leads here, expected the value written out"))
            return False
        self.mistakes.seen.add(id(node))
        return True


def pairs(
    node: "Node", place: NodeLocation, known: Sequence[str] = ()
) -> Iterator[tuple[str, tuple["Node", NodeLocation]]]:
    """The keys of a map, each once, with their values and places; only `known` ones, if given."""
    if not place.first_time(node):
        return
    if shape(node) != "mapping":
        place.wrong(node, t("found {found}, expected a map of keys and values", found=kind(node)))
        return
    taken: set[str] = set()
    for key_node, value in node.value:
        key = text(key_node, place)
        if key is None:
            continue
        at = place.below(key)
        if key in taken:
            at.wrong(key_node, t("stands there twice"))
        elif known and key not in known:
            at.wrong(key_node, t("unknown key{guess}", guess=guess(key, known)))
        else:
            taken.add(key)
            yield key, (value, at)


def text(node: "Node", place: NodeLocation) -> str | None:
    """A name or another short text; None after a mistake."""
    if shape(node) != "scalar" or _kind(node) != _TEXT:
        quoted = shape(node) == "scalar" and node.value
        said = (
            t("found {found}, expected a text; put it in quotes", found=_found(node))
            if quoted
            else t("found {found}, expected a text", found=_found(node))
        )
        place.wrong(node, said)
        return None
    value = str(node.value)
    if not value.strip() or not value.isprintable():
        place.wrong(node, t("found an empty or unprintable text, expected a plain one"))
        return None
    return value


def texts(node: "Node", place: NodeLocation) -> tuple[str, ...]:
    """A list of texts."""
    if not place.first_time(node):
        return ()
    if shape(node) != "sequence":
        place.wrong(node, t("found {found}, expected a list such as [a, b]", found=_found(node)))
        return ()
    found = (text(item, place) for item in node.value)
    return tuple(item for item in found if item is not None)


def flag(node: "Node", place: NodeLocation) -> bool:
    """true or false; false after a mistake."""
    if shape(node) == "scalar" and _kind(node) == _FLAG:
        return str(node.value).casefold() in ("true", "yes", "on")
    place.wrong(node, t("found {found}, expected true or false", found=_found(node)))
    return False


def shape(node: "Node") -> str:
    """`mapping`, `sequence` or `scalar`."""
    return str(getattr(node, "id", "scalar"))


def kind(node: "Node") -> str:
    """What a node is, in words."""
    return t(_kind(node))


def _kind(node: "Node") -> str:
    name = str(node.tag).rpartition(":")[2]
    return _KINDS.get(shape(node)) or _SCALARS.get(name, _SPECIAL)


def guess(name: str, known: Iterable[str]) -> str:
    """The end of a complaint about an unknown name: the one that was meant, or all there are."""
    known = sorted(known)
    from difflib import get_close_matches

    close = get_close_matches(name.casefold(), known, n=1, cutoff=0.6)
    if close:
        return t('; did you mean "{close}"?', close=close[0])
    return t("; expected one of {known}", known=", ".join(known))


def _found(node: "Node") -> str:
    if shape(node) != "scalar" or not node.value:
        return kind(node)
    return f'{kind(node)} "{_printable(str(node.value))}"'


def _printable(value: str) -> str:
    clean = escape_line(value[:41])
    return clean if len(clean) <= 40 else clean[:40] + "…"
