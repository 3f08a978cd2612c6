"""JSON with comments and trailing commas: values and their positions.

Used to read other programs' files, and to edit every file by position.
"""

import json
import re
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # no stub; json's own reader
from typing import Any

from agent.i18n import t
from gateway.config.json_files.document import DEPTH_LIMIT
from gateway.config.json_files.document import parse as parse_strict

_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)

_SCALAR = re.compile(r"[-+.0-9A-Za-z]+")


@dataclass(slots=True)
class JsonNode:
    """Value in a text, from `start` up to `end` (exclusive)."""

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
    """Entry of an object or a list; `start` is at its key, `comma` follows the value."""

    start: int
    node: JsonNode
    key: str = ""
    comma: int | None = field(default=None)


def read(text: str) -> JsonNode:
    """Parse the whole text as one value. Raises `ValueError` with line and column."""
    reader = _JsoncReader(text)
    at = reader.space(1 if text.startswith("\ufeff") else 0)
    node = reader.value(at, 0)
    at = reader.space(node.end)
    if at < len(text):
        raise reader.wrong(at, t("expected the end of the file"))
    return node


def find(node: JsonNode, path: tuple[str, ...]) -> JsonNode | None:
    """Return the value at a path of keys and list indexes."""
    for part in path:
        inner = member(node, part)
        if inner is None:
            return None
        node = inner.node
    return node


def member(node: JsonNode, part: str) -> JsonMember | None:
    """Return the entry of an object with this key, or of a list with this index."""
    if node.members is not None:
        return next((json_member for json_member in node.members if json_member.key == part), None)
    if node.items is not None and part.isdecimal() and int(part) < len(node.items):
        return node.items[int(part)]
    return None


class _JsoncReader:
    def __init__(self, text: str) -> None:
        self.text = text

    def wrong(self, at: int, reason: str) -> ValueError:
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        return ValueError(
            t("line {line}, column {column}: {said}", line=line, column=column, said=reason)
        )

    def space(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def value(self, at: int, depth: int) -> JsonNode:
        if depth > DEPTH_LIMIT:
            raise ValueError(t("nested too deeply for a configuration"))
        char = self.text[at : at + 1]
        if char == "{":
            return self._entries(at, depth, "}")
        if char == "[":
            return self._entries(at, depth, "]")
        if char == '"':
            text, end = self._string(at)
            return JsonNode(at, end, text)
        scalar = _SCALAR.match(self.text, at)
        if scalar is None:
            raise self.wrong(at, t("expected a value"))
        try:
            return JsonNode(at, scalar.end(), parse_strict(scalar[0]))
        except ValueError:
            raise self.wrong(at, t("expected a value")) from None

    def _string(self, at: int) -> tuple[str, int]:
        try:
            string: tuple[str, int] = scanstring(self.text, at + 1, True)
        except ValueError:
            raise self.wrong(
                at, t("a string is not terminated or contains an invalid character")
            ) from None
        if "\0" in string[0] or any("\ud800" <= c <= "\udfff" for c in string[0]):
            raise self.wrong(at, t("a string contains an invalid character"))
        return string

    def _entries(self, start: int, depth: int, close: str) -> JsonNode:
        members: list[JsonMember] = []
        at = self.space(start + 1)
        while self.text[at : at + 1] != close:
            if members and members[-1].comma is None:
                raise self.wrong(at, t('expected "," or "{close}"', close=close))
            entry = self._entry(at, depth, close == "}")
            if close == "}" and any(entry.key == json_member.key for json_member in members):
                raise self.wrong(at, t("duplicate key"))
            members.append(entry)
            at = self.space(entry.node.end)
            if self.text[at : at + 1] == ",":
                entry.comma = at
                at = self.space(at + 1)
        if close == "}":
            return JsonNode(
                start,
                at + 1,
                {json_member.key: json_member.node.value for json_member in members},
                members=members,
            )
        return JsonNode(
            start, at + 1, [json_member.node.value for json_member in members], items=members
        )

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


_SHORT_CHARS = 88

_BLANK_OR_COMMENT = re.compile(r"[ \t]*(?://[^\n]*)?\r?(?:\n|$)")


def set_value(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text with `value` at this path; missing objects along the path are created.

    Raises `ValueError` for invalid JSON, or for a path through a value without entries.
    """
    root = read(text)
    node, depth = root, 0
    while depth < len(path) and (inner := member(node, path[depth])) is not None:
        node, depth = inner.node, depth + 1
    if depth == len(path):
        rendered = _render(value, _indent_of(text, node.start), text)
        return text[: node.start] + rendered + text[node.end :]
    if node.members is None and (node.items is None or path[depth] != str(len(node.items))):
        raise ValueError(f"{'.'.join(path[:depth])} has no place for {path[depth]!r}")
    for part in reversed(path[depth + 1 :]):
        value = {part: value}
    return _append(text, node, path[depth] if node.members is not None else None, value)


def remove_value(text: str, path: tuple[str, ...]) -> str:
    """Return the text without the value at this path. Raises `KeyError` if there is none."""
    parent = find(read(text), path[:-1])
    removed_member = member(parent, path[-1]) if parent else None
    if parent is None or removed_member is None:
        raise KeyError(path[-1])
    n = parent.inner.index(removed_member)
    start, end = (
        removed_member.start,
        (removed_member.comma + 1 if removed_member.comma is not None else removed_member.node.end),
    )
    line = text.rfind("\n", 0, start) + 1
    rest = _BLANK_OR_COMMENT.match(text, end)
    if not text[line:start].strip() and rest and rest.end() < parent.end:
        start, end = line, rest.end()
    elif removed_member.comma is not None:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    else:
        start = len(text[:start].rstrip(" \t"))
    text = text[:start] + text[end:]
    last = parent.inner[n - 1] if n else None
    if removed_member.comma is None and last is not None and last.comma is not None:
        text = text[: last.comma] + text[last.comma + 1 :]
    return text


def _append(text: str, parent: JsonNode, key: str | None, value: Any) -> str:
    close = parent.end - 1
    outer = _indent_of(text, parent.start)
    last = parent.inner[-1] if parent.inner else None
    lines = "\n" in text[parent.start : close]
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = outer + _unit(text) if last is None else _indent_of(text, last.start)
    name = f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else ""
    entry = name + _render(value, indent if lines or last is None else outer, text)
    if last is not None and not lines:
        return _append_inline(text, last, f" {entry}")
    body = len(text[:close].rstrip())
    tail = f"{newline}{indent}{entry}"
    if last is None:
        return text[:body] + f"{tail}{newline}{outer}" + text[close:]
    if last.comma is not None:
        return text[:body] + tail + "," + text[body:]
    return text[: last.node.end] + "," + text[last.node.end : body] + tail + text[body:]


def _append_inline(text: str, last: JsonMember, entry: str) -> str:
    """Append an entry on the same line as the previous one."""
    if last.comma is not None:
        return f"{text[: last.comma + 1]}{entry},{text[last.comma + 1 :]}"
    return f"{text[: last.node.end]},{entry}{text[last.node.end :]}"


def _render(value: Any, indent: str, text: str) -> str:
    """Render a value as JSON: on one line when it is short, else indented like its surroundings."""
    short = json.dumps(value, ensure_ascii=False)
    if len(short) <= _SHORT_CHARS or not isinstance(value, dict | list):
        return short
    newline = "\r\n" if "\r\n" in text else "\n"
    indented = json.dumps(value, ensure_ascii=False, indent=_unit(text))
    return indented.replace("\n", newline + indent)


def _indent_of(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t\ufeff"))].lstrip("\ufeff")


def _unit(text: str) -> str:
    """Return the text's unit of indentation."""
    match = re.search(r"\n([ \t]+)[\"\[{]", text)
    return match[1] if match else "  "
