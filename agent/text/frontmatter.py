"""Tolerant parser for the frontmatter of Markdown files, which may be invalid YAML.

Values are built from YAML events: tags are ignored, aliases are errors, depth and size are limited.
Invalid YAML is read line by line. No text is lost: everything that is not a field belongs to the
body.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from agent.records import frozen

SIZE_LIMIT_BYTES = 256_000
_BLOCK_LIMIT_CHARS = 32_000
_DEPTH_LIMIT = 12
_FIELD = re.compile(r"([A-Za-z][\w-]{0,40})[ \t]*:(?:[ \t]+(.*)|)$")
_SIMPLE = re.compile(
    r"([A-Za-z][\w-]{0,40}): ([A-Za-z](?:[\w ,.;()/'-]{0,400}[\w.,;)])?)", re.ASCII
)
_MARK = re.compile(r"[|>][+-]?\d?[ \t]*$")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)$")
_QUOTED = re.compile(r"""(["'])(.*)\1$""", re.DOTALL)
# Speakers in a dialogue that people paste into a description without indentation.
_SPEAKERS = frozenset({"user", "assistant", "human", "context", "commentary", "example", "note"})
_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = re.compile(r"-?\d{1,15}")


@frozen
class Frontmatter:
    """Fields in the order of the file; `remarks` describe problems for people."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    remarks: tuple[str, ...] = ()


class _Unreadable(Exception):
    """Error: the block is not YAML, or uses an unsupported feature of YAML."""


def decode(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode a file with any content to text with LF line endings; return remarks, too."""
    remarks = []
    if len(raw) > SIZE_LIMIT_BYTES:
        raw = raw[:SIZE_LIMIT_BYTES]
        remarks.append(f"longer than {SIZE_LIMIT_BYTES:,} bytes: only its beginning is used")
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = raw.decode(encoding, errors="replace")
    if "\ufffd" in text:
        remarks.append("contains bytes that are not text")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", ""), tuple(remarks)


def read(text: str) -> Frontmatter:
    """Return the fields between two `---` lines at the top, and the text after them."""
    block, body = _split_block(text.removeprefix("\ufeff"))
    if block is None:
        return Frontmatter({}, body, ("has no frontmatter",))
    remark: tuple[str, ...] = ()
    try:
        fields = _simple(block) or _yaml(block)
    except _Unreadable as exc:
        fields = _lines(block)
        remark = (f"its frontmatter is not valid YAML ({exc}); it was read line by line",)
    return Frontmatter(fields, body, remark)


def _split_block(text: str) -> tuple[str | None, str]:
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if lines[first].rstrip() != "---":
        return None, text.strip()
    for n in range(first + 1, len(lines)):
        if lines[n].rstrip() in ("---", "..."):
            return "\n".join(lines[first + 1 : n]), "\n".join(lines[n + 1 :]).strip()
    # The block is never closed: fields end at the first empty line.
    end = next((n for n in range(first + 1, len(lines)) if not lines[n].strip()), len(lines))
    if end > first + 1 and _FIELD.match(lines[first + 1]):
        return "\n".join(lines[first + 1 : end]), "\n".join(lines[end:]).strip()
    return None, text.strip()


def _simple(block: str) -> dict[str, Any] | None:
    """Return the fields if all are plain words on one line, as in most files.

    YAML would give the same result, but takes 2 MB of memory.
    """
    fields: dict[str, Any] = {}
    for line in block.split("\n"):
        simple = _SIMPLE.fullmatch(line)
        if simple is None:
            return None
        fields.setdefault(simple[1], _plain(simple[2]))
    return fields


def _yaml(block: str) -> dict[str, Any]:
    """Return the mapping. Raises `_Unreadable`."""
    import yaml

    if len(block) > _BLOCK_LIMIT_CHARS:
        raise _Unreadable("too long")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events = yaml.parse(block, Loader=loader)
        document = _build(events)
    except yaml.YAMLError as exc:
        mark: Any = getattr(exc, "problem_mark", None)
        raise _Unreadable(f"line {mark.line + 2}" if mark else "not YAML") from None
    except (RecursionError, ValueError):
        raise _Unreadable("not YAML") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise _Unreadable("no fields")
    return {str(key): value for key, value in document.items()}


def _build(events: Iterator[Any]) -> Any:
    import yaml

    stack: list[tuple[Any, list[Any]]] = []
    documents: list[Any] = []
    parts = documents
    for event in events:
        match event:
            case yaml.ScalarEvent():
                parts.append(_scalar(event))
            case yaml.AliasEvent():
                raise _Unreadable("an alias")
            case yaml.CollectionStartEvent():
                if len(stack) == _DEPTH_LIMIT:
                    raise _Unreadable("nested too deeply")
                stack.append((event, parts))
                parts = []
            case yaml.CollectionEndEvent():
                start, outer = stack.pop()
                is_map = isinstance(start, yaml.MappingStartEvent)
                outer.append(_mapping(parts) if is_map else parts)
                parts = outer
    return documents[0] if documents else None


def _mapping(parts: list[Any]) -> dict[str, Any]:
    """Build a mapping from alternating keys and values; the first of equal keys wins."""
    mapping: dict[str, Any] = {}
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        mapping.setdefault(str(key), value)
    return mapping


def _scalar(event: Any) -> Any:
    text = str(event.value)
    if event.style or (event.tag and event.tag != "!"):
        return text
    return _plain(text)


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _NUMBER.fullmatch(text) else text


def _lines(block: str) -> dict[str, Any]:
    """Read fields line by line: each `name: value` at the margin begins a field."""
    fields: dict[str, Any] = {}
    name, rest = "", list[str]()
    for line in [*block.split("\n"), "end:"]:
        begins = _FIELD.match(line)
        if not begins or begins[1].casefold() in _SPEAKERS:
            rest.append(line)
            continue
        if name or any(map(str.strip, rest)):
            fields.setdefault(name or "text", _value(rest))
        name, rest = begins[1], [begins[2] or ""]
    return fields


def _value(lines: list[str]) -> Any:
    first, *more = lines
    if _MARK.match(first.strip()):
        return "\n".join(line.strip() for line in more).strip()
    items = [item[1].strip() for line in more if (item := _ITEM.match(line))]
    if not first.strip() and items and len(items) == sum(bool(line.strip()) for line in more):
        return [_unquote(item) for item in items]
    text = "\n".join(line.strip() for line in lines).strip()
    if text.startswith("[") and text.endswith("]"):
        return [_unquote(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    unquoted = _unquote(text)
    return _plain(text) if unquoted == text else unquoted


def _unquote(text: str) -> str:
    quoted = _QUOTED.match(text)
    if quoted is None:
        return text
    inner = quoted[2]
    return inner.replace("\\n", "\n").replace('\\"', '"') if quoted[1] == '"' else inner
