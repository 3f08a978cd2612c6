"""One JSON object a line, as Ollama streams them."""

import json

from agent.errors import BadReply
from agent.i18n import t
from agent.providers.http.json_stream import JsonObject

_LINE_LIMIT_BYTES = 16 << 20
_LIMIT_BYTES = 64 << 20


class NdjsonParser:
    """Collects bytes in any portions and gives back the objects in them.

    `done` turns true at an object that says so. Raises `BadReply` for what is not JSON and for a
    line or a stream that is too long.
    """

    def __init__(self) -> None:
        self.done = False
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._size = 0

    def feed(self, chunk: bytes) -> list[JsonObject]:
        """The objects that this portion completed."""
        self._size += len(chunk)
        first, *lines = chunk.split(b"\n")
        self._tail.append(first)
        self._tail_size += len(first)
        if self._tail_size > _LINE_LIMIT_BYTES or self._size > _LIMIT_BYTES:
            raise BadReply(t("the model's reply is too long to be one"))
        if not lines:
            return []
        lines.insert(0, b"".join(self._tail))
        last = lines.pop()
        self._tail, self._tail_size = [last], len(last)
        return self._read(lines)

    def close(self) -> list[JsonObject]:
        """The object that the end of the stream completed, if there was one."""
        rest, self._tail = b"".join(self._tail), []
        return self._read([rest])

    def _read(self, lines: list[bytes]) -> list[JsonObject]:
        found: list[JsonObject] = []
        for line in lines:
            if self.done or not line.strip():
                continue
            try:
                value = json.loads(line.decode("utf-8", "replace"))
            except (ValueError, RecursionError) as exc:
                raise BadReply(t("the model's server sent what is not JSON")) from exc
            if not isinstance(value, dict):
                raise BadReply(t("the model's server sent JSON that is not an object"))
            self.done = value.get("done") is True
            found.append(value)
        return found
