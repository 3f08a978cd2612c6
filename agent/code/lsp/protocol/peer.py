"""JSON-RPC 2.0 peer: requests and notifications in both directions."""

import asyncio
import itertools
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

from agent.errors import KoreError
from agent.tools.shell.confined_server import OutputBudget, TooMuchOutput

log = logging.getLogger(__name__)

# https://microsoft.github.io/language-server-protocol/specifications/lsp/3.18/specification/#baseProtocol
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
    """Splitter of byte chunks into messages of at most `limit_bytes` each.

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
                    raise BadMessage("It sent something that is not a language server message.")
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
            raise BadMessage("It sent a message without a length.")
        length = int(match[1])
        if length > self._limit_bytes:
            raise TooMuchOutput
        return length


def _parse(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise BadMessage("It sent a message that is not JSON.") from None
    if not isinstance(message, dict):
        raise BadMessage("It sent a message that is not an object.")
    return message


# Limit of the memory used for a server that does not read its input.
_MAX_UNREAD_BYTES = 64_000_000
_METHOD_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603

Handler = Callable[[str, Any], Any]


class ResponseError(KoreError):
    """Error response of the server, with its code and message."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error_code = code
        self.is_unknown_method = code == _METHOD_NOT_FOUND
        self.data = data


class PeerClosed(KoreError):
    """Error: the server has ended or is unreachable."""


class UnknownMethod(Exception):
    """Error: the server has called a method without a handler."""


class Output(Protocol):
    """Part of `asyncio.StreamWriter` that the peer uses."""

    def write(self, data: bytes) -> None: ...
    @property
    def transport(self) -> asyncio.WriteTransport: ...


class JsonRpcPeer:
    """Connection to a server.

    `on_request` answers the server's requests or raises `UnknownMethod`; `on_notification` receives
    its notifications. Both run in the event loop and must not block.
    """

    def __init__(self, on_request: Handler, on_notification: Handler) -> None:
        self._on_request = on_request
        self._on_notification = on_notification
        self._output: Output | None = None
        self._budget = OutputBudget()
        self._splitter = MessageSplitter(budget=self._budget)
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self.is_closed = False
        self.last_message_at = time.monotonic()

    def connect(self, output: Output) -> None:
        """Set the stream to write to."""
        self._output = output

    def feed(self, data: bytes) -> None:
        """Parse output of the server. Raises `TooMuchOutput`."""
        self.last_message_at = time.monotonic()
        self._budget.take(len(data))
        for message in self._splitter.feed(data):
            self._take(message)

    async def request(self, method: str, params: Any, timeout_s: float) -> Any:
        """Send a request and return its result.

        Raises `ResponseError`, `PeerClosed` and `TimeoutError`. A request that is abandoned is also
        cancelled on the server.
        """
        request_id = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = answer
        try:
            self._send({"id": request_id, "method": method, "params": params})
            async with asyncio.timeout(timeout_s):
                return await answer
        except (TimeoutError, asyncio.CancelledError):
            if not self.is_closed:
                self.notify("$/cancelRequest", {"id": request_id})
            raise
        finally:
            self._pending.pop(request_id, None)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification. Raises `PeerClosed`."""
        self._send({"method": method, "params": params})

    def close(self) -> None:
        """Close the connection and fail all pending requests."""
        self.is_closed = True
        waiting, self._pending = self._pending, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(PeerClosed("It has ended."))
                # Mark the exception as retrieved: its caller may be gone.
                answer.exception()

    def _send(self, message: dict[str, Any]) -> None:
        if self.is_closed or self._output is None or self._output.transport.is_closing():
            raise PeerClosed("It has ended.")
        if self._output.transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            self.close()
            raise PeerClosed("It does not read its input.")
        self._output.write(encode_message({"jsonrpc": "2.0", **message}))

    def _take(self, message: dict[str, Any]) -> None:
        method, message_id = message.get("method"), message.get("id")
        if isinstance(method, str):
            if message_id is None:
                self._on_notification(method, message.get("params"))
            elif not self.is_closed:
                answer = self._answer(method, message.get("params"))
                # The server may close its input right after a request.
                with suppress(PeerClosed):
                    self._send({"id": message_id, **answer})
            return
        waiting = self._pending.get(message_id) if isinstance(message_id, int) else None
        if waiting is None or waiting.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            code = code if isinstance(code, int) else _INTERNAL_ERROR
            words = str(error.get("message") or "no reason given")
            waiting.set_exception(ResponseError(code, words, error.get("data")))
        else:
            waiting.set_result(message.get("result"))

    def _answer(self, method: str, params: Any) -> dict[str, Any]:
        try:
            return {"result": self._on_request(method, params)}
        except UnknownMethod:
            return {"error": {"code": _METHOD_NOT_FOUND, "message": f"Kore has no {method}."}}
        except (TypeError, ValueError, KeyError, AttributeError) as exc:
            # A server may send parameters of any shape.
            log.info("language server: %s with unexpected parameters: %s", method, exc)
            return {"error": {"code": _INTERNAL_ERROR, "message": "unexpected parameters"}}
