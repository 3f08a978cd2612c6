"""Changes one value of a JSON text and nothing else: order, comments and blanks stay."""

import json
import re
from typing import Any

from gateway.config.jsonc import JsonMember, Node, find, member, read

_SHORT_CHARS = 88
_BLANK_OR_COMMENT = re.compile(r"[ \t]*(?://[^\n]*)?\r?(?:\n|$)")


def set_value(text: str, path: tuple[str, ...], value: Any) -> str:
    """The text with `value` at this path; objects on the way to it are made.

    Raises `ValueError`: for a text that is no JSON, and a path through what holds no entries.
    """
    root = read(text)
    node, done = root, 0
    while done < len(path) and (inner := member(node, path[done])) is not None:
        node, done = inner.node, done + 1
    if done == len(path):
        shown = _shown(value, _indent_of(text, node.start), text)
        return text[: node.start] + shown + text[node.end :]
    if node.members is None and (node.items is None or path[done] != str(len(node.items))):
        raise ValueError(f"{'.'.join(path[:done])} has no place for {path[done]!r}")
    for part in reversed(path[done + 1 :]):
        value = {part: value}
    return _append(text, node, path[done] if node.members is not None else None, value)


def remove_value(text: str, path: tuple[str, ...]) -> str:
    """The text without what stands at this path. Raises `KeyError` when nothing does."""
    parent = find(read(text), path[:-1])
    gone = member(parent, path[-1]) if parent else None
    if parent is None or gone is None:
        raise KeyError(path[-1])
    n = parent.inner.index(gone)
    start, end = gone.start, (gone.comma + 1 if gone.comma is not None else gone.node.end)
    line = text.rfind("\n", 0, start) + 1
    rest = _BLANK_OR_COMMENT.match(text, end)
    if not text[line:start].strip() and rest and rest.end() < parent.end:
        start, end = line, rest.end()
    elif gone.comma is not None:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    else:
        start = len(text[:start].rstrip(" \t"))
    text = text[:start] + text[end:]
    last = parent.inner[n - 1] if n else None
    if gone.comma is None and last is not None and last.comma is not None:
        text = text[: last.comma] + text[last.comma + 1 :]
    return text


def _append(text: str, parent: Node, key: str | None, value: Any) -> str:
    close = parent.end - 1
    outer = _indent_of(text, parent.start)
    last = parent.inner[-1] if parent.inner else None
    lines = "\n" in text[parent.start : close]
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = outer + _unit(text) if last is None else _indent_of(text, last.start)
    name = f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else ""
    entry = name + _shown(value, indent if lines or last is None else outer, text)
    if last is not None and not lines:
        return _behind(text, last, f" {entry}")
    body = len(text[:close].rstrip())
    tail = f"{newline}{indent}{entry}"
    if last is None:
        return text[:body] + f"{tail}{newline}{outer}" + text[close:]
    if last.comma is not None:
        return text[:body] + tail + "," + text[body:]
    return text[: last.node.end] + "," + text[last.node.end : body] + tail + text[body:]


def _behind(text: str, last: JsonMember, entry: str) -> str:
    """On the same line as the entry before it."""
    if last.comma is not None:
        return f"{text[: last.comma + 1]}{entry},{text[last.comma + 1 :]}"
    return f"{text[: last.node.end]},{entry}{text[last.node.end :]}"


def _shown(value: Any, indent: str, text: str) -> str:
    """As JSON: on one line when it is short, else indented like its surroundings."""
    short = json.dumps(value, ensure_ascii=False)
    if len(short) <= _SHORT_CHARS or not isinstance(value, dict | list):
        return short
    newline = "\r\n" if "\r\n" in text else "\n"
    whole = json.dumps(value, ensure_ascii=False, indent=_unit(text))
    return whole.replace("\n", newline + indent)


def _indent_of(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t\ufeff"))].lstrip("\ufeff")


def _unit(text: str) -> str:
    """What this text indents by."""
    found = re.search(r"\n([ \t]+)[\"\[{]", text)
    return found[1] if found else "  "
