"""Sessions as JSON lines: Kore's own form and KodaX's.

The first line is the metadata (`{"_type": "meta", "title", "id", "createdAt", …}`), each further
line a message or a record that is preserved unchanged. A vendor that rejects one message rejects
the whole conversation forever, so possibly unacceptable parts of a file of unknown origin are not
imported.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from agent.serialization import dumps, message_from_json, message_to_json, safe_text
from agent.types import Image, ImageFile, Message, Part, RedactedThinking, Text, Thinking, ToolCall
from gateway.core import kodax_import
from gateway.core.markdown import code

_ROLES = ("user", "assistant", "tool")
# Kore's own message lines have the time next to the message.
_AT = "timestamp"
# Formats that every vendor accepts, with their first bytes.
# https://platform.claude.com/docs/en/build-with-claude/vision
_PICTURES = {
    "image/png": (b"\x89PNG",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF8",),
    "image/webp": (b"RIFF",),
}
_MAX_PICTURE_BYTES = 3_750_000


@frozen
class TranscriptLine:
    """A line and its messages. `raw` is set if the messages do not contain everything."""

    messages: tuple[Message, ...] = ()
    raw: str | None = None
    at: float | None = None


@frozen
class Transcript:
    """A parsed session: `meta` is the metadata line as read, `title` the current title."""

    meta: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[TranscriptLine] = ()
    title: str | None = None


def read(text: str) -> Transcript:
    """Parse a session; a truncated last line is left out.

    Raises `KoreError`, which names the line.
    """
    rows = text.split("\n")
    records: list[tuple[dict[str, Any], str]] = []
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            record = _parse(row)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            if number == len(rows) and records:
                break  # written by a process that was killed
            raise KoreError(t("line {number}: expected one JSON object per line", number=number))
        records.append((record, safe_text(row)))
    if not records:
        raise KoreError(t("the file is empty, expected a header line and messages"))
    meta: Mapping[str, Any] = {}
    if records[0][0].get("_type") == "meta":
        meta, records = records[0][0], records[1:]
    every = [meta, *(record for record, _ in records)]
    branch = kodax_import.active_branch(every)
    lines = [_line(record, raw, branch) for record, raw in records]
    if not meta and not any(line.messages for line in lines):
        raise KoreError(t("the file contains neither a header line nor a message"))
    return Transcript(meta, lines, kodax_import.title(every))


def kore_line(message: Message, at: float) -> str:
    """Return a message in Kore's own form."""
    return dumps({**message_to_json(message), _AT: moment(at)})


def readable(messages: Sequence[Message]) -> str:
    """Return a conversation as markdown for people: authors, texts and tool calls."""
    parts = []
    for message in messages:
        pictures = [description for part in message.content if (description := _picture(part))]
        if message.role in ("user", "assistant") and (message.text or pictures):
            parts.append(f"## {'You' if message.role == 'user' else 'Kore'}")
            parts += [f"> picture: {picture}" for picture in pictures]
            parts += [message.text] if message.text else []
        parts += [f"> {call.name} {code(call.raw)}" for call in message.tool_calls]
        if message.role == "tool" and message.is_error:
            parts.append(f"> failed: {code(message.text)}")
        if message.taint and message.role == "tool":
            parts.append(f"> brought in: {', '.join(sorted(message.taint))}")
    return "\n\n".join(parts)


def _picture(part: Part) -> str | None:
    match part:
        case Image(kind, data):
            return f"{kind}, {len(data):,} bytes"
        case ImageFile(path):
            return path
    return None


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def seconds(value: object) -> float | None:
    """Return Unix time of a value in a file: ISO 8601, or milliseconds."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _parse(row: str) -> Any:
    record = json.loads(row, parse_constant=_refuse)
    # Half of a surrogate pair, which an escape can spell, cannot be stored or sent.
    return json.loads(dumps(record)) if "\\ud" in row.lower() else record


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _line(record: Mapping[str, Any], raw: str, branch: frozenset[str]) -> TranscriptLine:
    if "_type" not in record:
        return _own(record, raw) or _foreign([record], raw, record)
    entry = kodax_import.entry(record)
    if record["_type"] == "lineage_entry" and str(entry.get("id")) in branch:
        return _foreign(kodax_import.messages_of(entry), raw, entry)
    return TranscriptLine(raw=raw)


def _own(record: Mapping[str, Any], raw: str) -> TranscriptLine | None:
    """Return the message of an own line, None if its own form would lose something."""
    plain = {name: value for name, value in record.items() if name != _AT}
    if plain.get("role") not in _ROLES:
        return None
    try:
        message = message_from_json(plain)
    except (KoreError, TypeError, AttributeError, ValueError):
        return None
    if message_to_json(message) != plain:
        return None
    messages = _acceptable_messages(message)
    raw_kept = None if messages == (message,) else raw
    return TranscriptLine(messages, raw_kept, seconds(record.get(_AT)))


def _foreign(
    messages: Sequence[Mapping[str, Any]], raw: str, facts: Mapping[str, Any]
) -> TranscriptLine:
    """Return messages in the form of the Anthropic API, as KodaX stores them."""
    accepted = (
        acceptable
        for message in messages
        for part_message in _messages_of(message)
        for acceptable in _acceptable_messages(part_message)
    )
    return TranscriptLine(tuple(accepted), raw, seconds(facts.get(_AT)))


def _messages_of(message: Mapping[str, Any]) -> list[Message]:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        return []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    items = (
        [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    )
    parts = tuple(part for block in items if (part := _part(block)) is not None)
    calls = tuple(_call(block) for block in items if block.get("type") == "tool_use")
    results = [_result(block) for block in items if block.get("type") == "tool_result"]
    messages = results if role == "user" else []
    if parts or (calls and role == "assistant"):
        messages.append(Message(role, parts, calls if role == "assistant" else ()))
    return messages


def _acceptable_messages(message: Message) -> tuple[Message, ...]:
    """Return the message without parts that a vendor might refuse, or nothing if none remain."""
    content = tuple(
        part for original in message.content if (part := _acceptable(original)) is not None
    )
    if content == message.content:
        return (message,)
    if not content and message.role != "tool" and not message.tool_calls:
        return ()
    return (replace(message, content=content),)


def _acceptable(part: Part) -> Part | None:
    match part:
        case Thinking(text, signature) if signature is not None:
            # A vendor refuses a foreign signature.
            return Thinking(text)
        case RedactedThinking():
            return None
        case Image(kind, data):
            fits = len(data) <= _MAX_PICTURE_BYTES and data.startswith(_PICTURES.get(kind, ()))
            return part if fits else Text(f"[a picture of {len(data):,} bytes, not shown: {kind}]")
        case ImageFile(path):
            # A file named by an imported file is not opened.
            return Text(f"[a picture that is not in this file: {safe_text(path)}]")
    return part


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
                return Text(f"[a damaged picture: {safe_text(kind)}]")
        case {"type": "image", "path": str(path)}:
            return Text(f"[a picture that is not in this file: {safe_text(path)}]")
    return None


def _call(block: Mapping[str, Any]) -> ToolCall:
    value = block.get("input")
    arguments = value if isinstance(value, dict) else {}
    return ToolCall(
        str(block.get("id", "")), str(block.get("name", "")), arguments, dumps(arguments)
    )


def _result(block: Mapping[str, Any]) -> Message:
    content = block.get("content")
    texts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        texts = [item["text"] for item in content if isinstance(item, dict) and "text" in item]
    text = safe_text("\n".join(map(str, texts)))
    is_error = block.get("is_error") is True
    return Message("tool", (Text(text),), (), str(block.get("tool_use_id", "")), is_error)
