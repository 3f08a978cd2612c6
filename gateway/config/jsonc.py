"""JSON as people keep it, with comments and commas after the last entry: values and where they are.

Other programs' files are read with it, and every file is edited with what it says of places.
"""

import re
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # no stub; json's own reader
from typing import Any

from agent.i18n import t
from gateway.config.json_document import DEPTH_LIMIT
from gateway.config.json_document import parse as parse_strict

_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r"[-+.0-9A-Za-z]+")


@dataclass(slots=True)
class Node:
    """A value in a text, from `start` to before `end`."""

    start: int
    end: int
    value: Any
    members: "list[JsonMember] | None" = None  # of an object
    items: "list[JsonMember] | None" = None  # of a list

    @property
    def inner(self) -> "list[JsonMember]":
        return self.members if self.members is not None else self.items or []


@dataclass(slots=True)
class JsonMember:
    """An entry of an object or a list: from `start`, where its key is; `comma` is behind it."""

    start: int
    node: Node
    key: str = ""
    comma: int | None = field(default=None)


def read(text: str) -> Node:
    """The whole text as one value. Raises `ValueError` with line and column."""
    reader = _JsoncReader(text)
    at = reader.space(1 if text.startswith("\ufeff") else 0)
    node = reader.value(at, 0)
    at = reader.space(node.end)
    if at < len(text):
        raise reader.wrong(at, t("expected the end of the file"))
    return node


def find(node: Node, path: tuple[str, ...]) -> Node | None:
    """What stands at a path of keys and numbers of a list."""
    for part in path:
        inner = member(node, part)
        if inner is None:
            return None
        node = inner.node
    return node


def member(node: Node, part: str) -> JsonMember | None:
    """The entry of an object with this key, or of a list with this number."""
    if node.members is not None:
        return next((one for one in node.members if one.key == part), None)
    if node.items is not None and part.isdecimal() and int(part) < len(node.items):
        return node.items[int(part)]
    return None


class _JsoncReader:
    def __init__(self, text: str) -> None:
        self.text = text

    def wrong(self, at: int, said: str) -> ValueError:
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        return ValueError(
            t("line {line}, column {column}: {said}", line=line, column=column, said=said)
        )

    def space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def value(self, at: int, depth: int) -> Node:
        if depth > DEPTH_LIMIT:
            raise ValueError(t("nested too deeply for a configuration"))
        char = self.text[at : at + 1]
        if char == "{":
            return self._entries(at, depth, "}")
        if char == "[":
            return self._entries(at, depth, "]")
        if char == '"':
            text, end = self._string(at)
            return Node(at, end, text)
        scalar = _SCALAR.match(self.text, at)
        if scalar is None:
            raise self.wrong(at, t("expected a value"))
        try:
            return Node(at, scalar.end(), parse_strict(scalar[0]))
        except ValueError:
            raise self.wrong(at, t("expected a value")) from None

    def _string(self, at: int) -> tuple[str, int]:
        try:
            found: tuple[str, int] = scanstring(self.text, at + 1, True)
        except ValueError:
            raise self.wrong(at, t("a string does not end, or holds what no string may")) from None
        if "\0" in found[0] or any("\ud800" <= c <= "\udfff" for c in found[0]):
            raise self.wrong(at, t("a string holds a character that is not text"))
        return found

    def _entries(self, start: int, depth: int, close: str) -> Node:
        found: list[JsonMember] = []
        at = self.space(start + 1)
        while self.text[at : at + 1] != close:
            if found and found[-1].comma is None:
                raise self.wrong(at, t('expected "," or "{close}"', close=close))
            entry = self._entry(at, depth, close == "}")
            if close == "}" and any(entry.key == one.key for one in found):
                raise self.wrong(at, t("the same key stands there twice"))
            found.append(entry)
            at = self.space(entry.node.end)
            if self.text[at : at + 1] == ",":
                entry.comma = at
                at = self.space(at + 1)
        if close == "}":
            return Node(start, at + 1, {one.key: one.node.value for one in found}, members=found)
        return Node(start, at + 1, [one.node.value for one in found], items=found)

    def _entry(self, at: int, depth: int, keyed: bool) -> JsonMember:
        if not keyed:
            return JsonMember(at, self.value(at, depth + 1))
        if self.text[at : at + 1] != '"':
            raise self.wrong(at, t("expected a key in quotes"))
        key, end = self._string(at)
        colon = self.space(end)
        if self.text[colon : colon + 1] != ":":
            raise self.wrong(colon, t('expected ":"'))
        return JsonMember(at, self.value(self.space(colon + 1), depth + 1), key)
