"""Transport for JSON-RPC messages, one per line of standard input and output."""

import asyncio
import json
from typing import Any

from agent.errors import KoreError
from agent.i18n import t

# https://www.jsonrpc.org/specification#error_object
_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600


class _InvalidMessage(KoreError):
    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.number = code


class EditorLines:
    """Transport for the protocol library that answers invalid messages with an error.

    The library itself stops at some invalid messages and ignores others.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._write_lock = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._write_lock:
            self._writer.write(line)
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end."""
        while line := await self._read_line():
            if not line.strip():
                continue
            try:
                return _message_of(line)
            except _InvalidMessage as exc:
                error = {"code": exc.number, "message": str(exc)}
                await self.send({"jsonrpc": "2.0", "id": None, "error": error})
        return None

    async def close(self) -> None:
        """Wait until pending messages are sent; standard output belongs to the process."""
        async with self._write_lock:
            pass

    async def _read_line(self) -> bytes:
        pieces: list[bytes] = []
        while True:
            try:
                pieces.append(await self._reader.readuntil(b"\n"))
                break
            except asyncio.LimitOverrunError as exc:
                pieces.append(await self._reader.readexactly(exc.consumed))
            except asyncio.IncompleteReadError as exc:
                pieces.append(exc.partial)
                break
        return b"".join(pieces)


def _message_of(line: bytes) -> dict[str, Any]:
    """Return the message of a line. Raises `_InvalidMessage`."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        words = t("found a line that is not JSON, expected one JSON-RPC message in each line")
        raise _InvalidMessage(_PARSE_ERROR, words) from None
    if not isinstance(message, dict):
        words = t("found JSON that is not an object, expected one JSON-RPC message in each line")
        raise _InvalidMessage(_INVALID_REQUEST, words)
    number, method = message.get("id"), message.get("method")
    is_message = (
        isinstance(number, str | int | None)
        and isinstance(method, str | None)
        and isinstance(message.get("params"), dict | list | None)
        and isinstance(message.get("error"), dict | None)
        and ("id" in message or method is not None)
    )
    if not is_message:
        words = t("found an object that is not a JSON-RPC message; it needs a method or an id")
        raise _InvalidMessage(_INVALID_REQUEST, words)
    return message
