"""Tolerant parsers for streams of JSON objects: server-sent events and JSON lines.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
Tolerated: CR LF, comments, no space after `data:`, no blank line between events, an object spread
over several `data` lines, a stray JSON line, and one plain JSON document instead of a stream.
"""

import json
from typing import Any

from agent.errors import BadReply
from agent.i18n import t

JsonObject = dict[str, Any]

_DONE = "[DONE]"

_BOM = b"\xef\xbb\xbf"


class SseParser:
    """Parser of server-sent events in any chunks, with a JSON object in each event.

    `done` becomes true at `data: [DONE]`; anything after it is ignored. Raises `BadReply` for
    invalid JSON, for a line over `line_limit_bytes` and for a stream over `limit_bytes`.
    """

    def __init__(self, *, line_limit_bytes: int = 16 << 20, limit_bytes: int = 64 << 20) -> None:
        self.done = False
        self._line_limit = line_limit_bytes
        self._limit = limit_bytes
        self._size = 0
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._data: list[str] = []
        # None until the first byte other than whitespace shows whether this is a stream or a
        # document.
        self._plain: bool | None = None

    def feed(self, chunk: bytes) -> list[JsonObject]:
        """Return the objects that this chunk completed."""
        self._size += len(chunk)
        if self._size > self._limit:
            raise _too_large(t("the model's reply exceeds {limit} bytes", limit=self._limit))
        if self._plain is None:
            chunk = self._sniff(chunk)
        if self._plain is None or self._plain or b"\n" not in chunk:
            self._keep(chunk)
            return []
        first, *lines = chunk.split(b"\n")
        self._keep(first)
        lines.insert(0, b"".join(self._tail))
        self._tail = []
        self._tail_size = 0
        self._keep(lines.pop())
        items = [self._line(line) for line in lines]
        return [item for item in items if item is not None]

    def close(self) -> list[JsonObject]:
        """Return the object that the end of the stream completed, if any."""
        rest = b"".join(self._tail)
        self._tail = []
        if self._plain:
            return [_parse(rest.decode("utf-8", "replace"))]
        items = [self._line(rest), self._line(b"")]
        return [item for item in items if item is not None]

    def _sniff(self, chunk: bytes) -> bytes:
        chunk = b"".join(self._tail) + chunk
        self._tail = []
        self._tail_size = 0
        start = chunk.removeprefix(_BOM).lstrip()
        if start and not _BOM.startswith(chunk):
            self._plain = start.startswith(b"{")
            return start
        return chunk

    def _keep(self, piece: bytes) -> None:
        self._tail_size += len(piece)
        if self._tail_size > self._line_limit:
            raise _too_large(
                t(
                    "a line in the model's reply exceeds {line_limit} bytes",
                    line_limit=self._line_limit,
                )
            )
        self._tail.append(piece)

    def _line(self, raw: bytes) -> JsonObject | None:
        if self.done:
            return None
        line = raw.decode("utf-8", "replace").removesuffix("\r")
        if not line:
            return self._end_of_event()
        if line.startswith("data:"):
            data = line[5:].removeprefix(" ")
        elif line.startswith("{"):
            data = line
        else:
            return None
        if data.strip() == _DONE:
            self.done = True
            return self._end_of_event()
        return self._add(data)

    def _add(self, data: str) -> JsonObject | None:
        """Parse a complete line, or collect it.

        Most events are one line, so that is tried at once; several lines are parsed at the event's
        end.
        """
        if not self._data:
            if not data.strip():
                return None
            try:
                return _object(json.loads(data))
            except (ValueError, RecursionError):
                pass
        self._data.append(data)
        return None

    def _end_of_event(self) -> JsonObject | None:
        if not self._data:
            return None
        text = "\n".join(self._data)
        self._data = []
        return _parse(text) if text.strip() else None


def _too_large(text: str) -> BadReply:
    """Return an error that is not retried: the next reply would most likely be as large."""
    error = BadReply(text)
    error.retryable = False
    return error


def _parse(text: str) -> JsonObject:
    try:
        return _object(json.loads(text))
    except (ValueError, RecursionError) as exc:
        raise BadReply(t("the model server sent invalid JSON")) from exc


def _object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise BadReply(t("the model server sent JSON that is not an object"))
    return value


_LINE_LIMIT_BYTES = 16 << 20

_LIMIT_BYTES = 64 << 20


class NdjsonParser:
    """Parser of JSON lines in any chunks.

    `done` becomes true at an object with `done: true`. Raises `BadReply` for invalid JSON and for a
    line or a stream that is too long.
    """

    def __init__(self) -> None:
        self.done = False
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._size = 0

    def feed(self, chunk: bytes) -> list[JsonObject]:
        """Return the objects that this chunk completed."""
        self._size += len(chunk)
        first, *lines = chunk.split(b"\n")
        self._tail.append(first)
        self._tail_size += len(first)
        if self._tail_size > _LINE_LIMIT_BYTES or self._size > _LIMIT_BYTES:
            raise _too_large(t("the model's reply is too long"))
        if not lines:
            return []
        lines.insert(0, b"".join(self._tail))
        last = lines.pop()
        self._tail, self._tail_size = [last], len(last)
        return self._read(lines)

    def close(self) -> list[JsonObject]:
        """Return the object that the end of the stream completed, if any."""
        rest, self._tail = b"".join(self._tail), []
        return self._read([rest])

    def _read(self, lines: list[bytes]) -> list[JsonObject]:
        items: list[JsonObject] = []
        for line in lines:
            if self.done or not line.strip():
                continue
            try:
                value = json.loads(line.decode("utf-8", "replace"))
            except (ValueError, RecursionError) as exc:
                raise BadReply(t("the model server sent invalid JSON")) from exc
            if not isinstance(value, dict):
                raise BadReply(t("the model server sent JSON that is not an object"))
            self.done = value.get("done") is True
            items.append(value)
        return items
