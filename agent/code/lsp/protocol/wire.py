"""Framing of Language Server Protocol messages: a header with the length, then JSON.

https://microsoft.github.io/language-server-protocol/specifications/lsp/3.18/specification/#baseProtocol
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from agent.tools.shell.confined_server import OutputBudget, TooMuchOutput

# Longer messages are rejected, so that a server cannot fill the memory.
MAX_MESSAGE_BYTES = 16_000_000
_MAX_HEADER_BYTES = 4_096
_LENGTH = re.compile(rb"^Content-Length:[ \t]*(\d{1,12})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_HEADER_END = b"\r\n\r\n"


class BadMessage(TooMuchOutput):
    """Bytes that do not form a message; the rest of the stream cannot be parsed."""


def encode_message(message: dict[str, Any]) -> bytes:
    """Encode a message with its header.

    Half of a surrogate pair, which UTF-8 cannot express, becomes a JSON escape.
    """
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    try:
        data = body.encode()
    except UnicodeEncodeError:
        data = json.dumps(message, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


class MessageSplitter:
    """Splits chunks of bytes into messages of at most `limit_bytes` each.

    JSON values count against the `budget`.
    """

    def __init__(
        self, limit_bytes: int = MAX_MESSAGE_BYTES, budget: OutputBudget | None = None
    ) -> None:
        self._limit_bytes = limit_bytes
        self._budget = budget or OutputBudget()
        self._buffer = bytearray()
        self._missing = 0

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages that are complete. Raises `TooMuchOutput` and `BadMessage`."""
        self._buffer += data
        # Do not parse the header again with each chunk of a long body.
        while len(self._buffer) >= self._missing:
            end = self._buffer.find(_HEADER_END, 0, _MAX_HEADER_BYTES)
            if end < 0:
                if len(self._buffer) >= _MAX_HEADER_BYTES:
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
