"""JSON-RPC 2.0 with a language server: requests and their answers, in both directions."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from agent.code.lsp.protocol.wire import MessageSplitter, encode_message
from agent.errors import KoreError
from agent.tools.shell.output_budget import OutputBudget

log = logging.getLogger(__name__)

# A server that does not read what it is sent holds so much in memory at most.
_MOST_UNREAD_BYTES = 64_000_000
_METHOD_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603

Handler = Callable[[str, Any], Any]


class ResponseError(KoreError):
    """The server's own no: its number, and its words."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error_code = code
        self.is_unknown_method = code == _METHOD_NOT_FOUND
        self.data = data


class PeerClosed(KoreError):
    """The server has ended, or cannot be talked to any more."""


class UnknownMethod(Exception):
    """A handler does not know what the server asks."""


class Output(Protocol):
    """Where bytes go: an `asyncio.StreamWriter`."""

    def write(self, data: bytes) -> None: ...
    @property
    def transport(self) -> asyncio.WriteTransport: ...


class JsonRpcPeer:
    """One connection. `on_request` answers what the server asks, or raises `UnknownMethod`;
    `on_notification` hears what it tells. Both are called in the loop and must not block."""

    def __init__(self, on_request: Handler, on_notification: Handler) -> None:
        self._on_request = on_request
        self._on_notification = on_notification
        self._output: Output | None = None
        self._budget = OutputBudget()
        self._splitter = MessageSplitter(budget=self._budget)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.is_closed = False
        self.heard_at = time.monotonic()

    def connect(self, output: Output) -> None:
        """From here on it can be written to."""
        self._output = output

    def feed(self, data: bytes) -> None:
        """Take what the server wrote. Raises `TooMuchOutput`."""
        self.heard_at = time.monotonic()
        self._budget.take(len(data))
        for message in self._splitter.feed(data):
            self._take(message)

    async def request(self, method: str, params: Any, timeout_s: float) -> Any:
        """The server's result. Raises `ResponseError`, `PeerClosed` and `TimeoutError`; a request
        that nobody waits for any more is cancelled there, too."""
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send({"id": number, "method": method, "params": params})
            async with asyncio.timeout(timeout_s):
                return await answer
        except (TimeoutError, asyncio.CancelledError):
            if not self.is_closed:
                self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            self._waiting.pop(number, None)

    def notify(self, method: str, params: Any) -> None:
        """Tell the server. Raises `PeerClosed`."""
        self._send({"method": method, "params": params})

    def close(self) -> None:
        """Nothing more comes: those who wait learn that."""
        self.is_closed = True
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(PeerClosed("It has ended."))
                # The one who waited may have gone.
                answer.exception()

    def _send(self, message: dict[str, Any]) -> None:
        if self.is_closed or self._output is None or self._output.transport.is_closing():
            raise PeerClosed("It has ended.")
        if self._output.transport.get_write_buffer_size() > _MOST_UNREAD_BYTES:
            self.close()
            raise PeerClosed("It does not read what it is sent.")
        self._output.write(encode_message({"jsonrpc": "2.0", **message}))

    def _take(self, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str):
            if number is None:
                self._on_notification(method, message.get("params"))
            elif not self.is_closed:
                answer = self._answer(method, message.get("params"))
                # It may ask with its last breath.
                with suppress(PeerClosed):
                    self._send({"id": number, **answer})
            return
        waiting = self._waiting.get(number) if isinstance(number, int) else None
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
            # What a server sends may have any shape.
            log.info("language server: %s with unexpected parameters: %s", method, exc)
            return {"error": {"code": _INTERNAL_ERROR, "message": "unexpected parameters"}}
