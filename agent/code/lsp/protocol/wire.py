"""Messages of the Language Server Protocol as bytes: a header with the length, then JSON.

https://microsoft.github.io/language-server-protocol/specifications/lsp/3.18/specification/#baseProtocol
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from agent.tools.shell.confined_server import TooMuchOutput
from agent.tools.shell.output_budget import OutputBudget

# A longer message is not taken: what a server floods with must not fill the memory.
MOST_MESSAGE_BYTES = 16_000_000
_MOST_HEADER_BYTES = 4_096
_LENGTH = re.compile(rb"^Content-Length:[ \t]*(\d{1,12})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_HEADER_END = b"\r\n\r\n"


class BadMessage(TooMuchOutput):
    """Bytes that are no message: what follows cannot be told apart any more."""


def encode_message(message: dict[str, Any]) -> bytes:
    """A message with its header. Half of a surrogate pair, which JSON has no bytes for, becomes an
    escape."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    try:
        data = body.encode()
    except UnicodeEncodeError:
        data = json.dumps(message, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


class MessageSplitter:
    """Messages out of chunks, none of them longer than `limit_bytes`. Their values count against
    the `budget`."""

    def __init__(
        self, limit_bytes: int = MOST_MESSAGE_BYTES, budget: OutputBudget | None = None
    ) -> None:
        self._limit_bytes = limit_bytes
        self._budget = budget or OutputBudget()
        self._buffer = bytearray()
        self._missing = 0

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Those that are complete now. Raises `TooMuchOutput` and `BadMessage`."""
        self._buffer += data
        # A long body is not looked at again with each of its chunks.
        while len(self._buffer) >= self._missing:
            end = self._buffer.find(_HEADER_END, 0, _MOST_HEADER_BYTES)
            if end < 0:
                if len(self._buffer) >= _MOST_HEADER_BYTES:
                    raise BadMessage("It sent something that is no message of a language server.")
                return
            start = end + len(_HEADER_END)
            self._missing = start + self._length(bytes(self._buffer[:end]))
            if len(self._buffer) < self._missing:
                return
            body = bytes(self._buffer[start : self._missing])
            del self._buffer[: self._missing]
            self._missing = 0
            self._budget.take_values(body)
            yield _parse(body)

    def _length(self, header: bytes) -> int:
        match = _LENGTH.search(header)
        if match is None:
            raise BadMessage("It sent a message without its length.")
        length = int(match[1])
        if length > self._limit_bytes:
            raise TooMuchOutput
        return length


def _parse(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise BadMessage("It sent a message that is no JSON.") from None
    if not isinstance(message, dict):
        raise BadMessage("It sent a message that is no object.")
    return message
