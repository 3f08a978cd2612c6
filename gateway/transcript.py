"""A session as JSON lines: Kore's own form, and what KodaX writes.

The first line holds the facts (`{"_type": "meta", "title", "id", "createdAt", …}`), each other one
a message or something that is kept as it is. KodaX's newer files hold `lineage_entry` lines: a
tree, of which the branch with the last message is the conversation.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agent.codec import dumps, message_from_json, message_to_json, safe_text
from agent.errors import KoreError
from agent.types import Image, Message, Part, RedactedThinking, Text, Thinking, ToolCall

_ROLES = ("user", "assistant", "tool")
# An own message line says when it was said beside the message.
_AT = "timestamp"


@dataclass(frozen=True, slots=True)
class Line:
    """A line, and the messages that were made of it. `raw` is kept where they do not say it all."""

    messages: tuple[Message, ...] = ()
    raw: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    meta: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[Line] = ()


def read(text: str) -> Transcript:
    """Raises `KoreError`, which names the line; a last line that was cut off is left out."""
    rows = text.split("\n")
    records: list[tuple[dict[str, Any], str]] = []
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            record = json.loads(row)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            if number == len(rows) and records:
                break  # written by a process that was killed
            raise KoreError(f"line {number}: found no JSON object, expected one a line")
        records.append((record, safe_text(row)))
    if not records:
        raise KoreError("the file is empty, expected a line of facts and messages")
    meta: Mapping[str, Any] = {}
    if records[0][0].get("_type") == "meta":
        meta, records = records[0][0], records[1:]
    branch = _branch(record for record, _ in records)
    lines = [_line(record, raw, branch) for record, raw in records]
    if not meta and not any(line.messages for line in lines):
        raise KoreError("the file holds neither a line of facts nor a message")
    return Transcript(meta, lines)


def own_line(message: Message, at: float) -> str:
    """A message in Kore's own form."""
    return dumps({**message_to_json(message), _AT: moment(at)})


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def seconds(value: object) -> float | None:
    """Unix time of what a file says: ISO 8601, or milliseconds."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _branch(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """The ids of the entries from the root to the last message."""
    entries = [_entry(record) for record in records if record.get("_type") == "lineage_entry"]
    parents = {str(entry.get("id")): entry.get("parentId") for entry in entries}
    leaf = next((e.get("id") for e in reversed(entries) if e.get("type") == "message"), None)
    branch: set[str] = set()
    while leaf is not None and str(leaf) not in branch:
        branch.add(str(leaf))
        leaf = parents.get(str(leaf))
    return branch


def _entry(record: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = record.get("entry")
    return inner if isinstance(inner, dict) else record


def _line(record: Mapping[str, Any], raw: str, branch: set[str]) -> Line:
    if "_type" not in record:
        return _own(record) or _foreign(record, raw, record)
    entry = _entry(record)
    if record["_type"] == "lineage_entry" and entry.get("type") == "message":
        said = entry.get("message")
        if str(entry.get("id")) in branch and isinstance(said, dict):
            return _foreign(said, raw, entry)
    return Line(raw=raw)


def _own(record: Mapping[str, Any]) -> Line | None:
    """The message of a line that says nothing which its own form would not say, too."""
    plain = {name: value for name, value in record.items() if name != _AT}
    if plain.get("role") not in _ROLES:
        return None
    try:
        message = message_from_json(plain)
    except (KoreError, TypeError, AttributeError, ValueError):
        return None
    if message_to_json(message) != plain:
        return None
    return Line((message,), at=seconds(record.get(_AT)))


def _foreign(said: Mapping[str, Any], raw: str, facts: Mapping[str, Any]) -> Line:
    """A message in the form of the Anthropic API, as KodaX stores it."""
    role, content = said.get("role"), said.get("content")
    if role not in ("user", "assistant"):
        return Line(raw=raw)
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    found = [block for block in blocks if isinstance(block, dict)] if blocks else []
    parts = tuple(part for block in found if (part := _part(block)) is not None)
    calls = tuple(_call(block) for block in found if block.get("type") == "tool_use")
    results = [_result(block) for block in found if block.get("type") == "tool_result"]
    messages = results if role == "user" else []
    if parts or (calls and role == "assistant"):
        messages.append(Message(role, parts, calls if role == "assistant" else ()))
    return Line(tuple(messages), raw, seconds(facts.get(_AT)))


def _part(block: Mapping[str, Any]) -> Part | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(safe_text(text))
        case {"type": "thinking", "thinking": str(text)}:
            signature = block.get("signature")
            return Thinking(safe_text(text), signature if isinstance(signature, str) else None)
        case {"type": "redacted_thinking", "data": str(data)}:
            return RedactedThinking(data)
        case {"type": "image", "source": {"media_type": str(kind), "data": str(data)}}:
            try:
                return Image(kind, base64.b64decode(data, validate=True))
            except ValueError:
                return None
    return None


def _call(block: Mapping[str, Any]) -> ToolCall:
    given = block.get("input")
    arguments = given if isinstance(given, dict) else {}
    return ToolCall(
        str(block.get("id", "")), str(block.get("name", "")), arguments, dumps(arguments)
    )


def _result(block: Mapping[str, Any]) -> Message:
    content = block.get("content")
    texts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        texts = [one["text"] for one in content if isinstance(one, dict) and "text" in one]
    text = safe_text("\n".join(map(str, texts)))
    failed = block.get("is_error") is True
    return Message("tool", (Text(text),), (), str(block.get("tool_use_id", "")), failed)
