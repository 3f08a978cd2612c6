"""Bot API over aiohttp; every error states whether the request may have been executed.

https://core.telegram.org/bots/api#making-requests
"""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import aiohttp
from telegram.error import TelegramError
from telegram.request import BaseRequest, RequestData

from agent.proxies.outbound import open_session
from gateway.channels.telegram.settings import TelegramSettings
from gateway.core.channel_events import UNDECODED_LIMIT_CHARS

_HEAD_BYTES = UNDECODED_LIMIT_CHARS
_CHUNK_BYTES = 256 * 1024
_DOWNLOAD_TIMEOUT_S = 1800.0
_MAX_WAIT_S = 24 * 3600.0


class RequestNotSent(TelegramError):
    """Failed connection: the server certainly did not receive the request."""


class ResponseLost(TelegramError):
    """Failure after the request was sent: it may have been executed."""


class UnreadableResponse(ResponseLost):
    """Complete response that is not a Bot API response, or exceeds the size limit (`too_large`)."""

    def __init__(self, message: str, head: bytes, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.head = head
        self.too_large = too_large


class Refusal(TelegramError):
    """Error response: `code` is the HTTP status, `description` the server's reason."""

    def __init__(self, code: int, description: str, parameters: Mapping[str, Any]) -> None:
        super().__init__(f"{code} {description}")
        self.code = code
        self.description = description
        self.retry_after_s = _seconds(parameters.get("retry_after"))
        moved = parameters.get("migrate_to_chat_id")
        self.new_chat_id = moved if isinstance(moved, int) else None


def _seconds(value: object) -> float:
    """Return a server's waiting time, limited to a finite value."""
    if not isinstance(value, int | float) or not 0 < value <= _MAX_WAIT_S:
        return _MAX_WAIT_S if isinstance(value, int | float) and value > 0 else 1.0
    return float(value)


def message_id_of(result: Any) -> int:
    """Return the id of the message that a method has sent. Raises `UnreadableResponse`."""
    message_id = result.get("message_id") if isinstance(result, dict) else None
    if not isinstance(message_id, int):
        raise UnreadableResponse("the answer names no message", b"")
    return message_id


class AiohttpRequest(BaseRequest):
    """Request layer for python-telegram-bot that connects on first use.

    URLs contain the token, so foreign exceptions, whose text may contain the URL, are neither
    chained nor quoted.
    """

    def __init__(self, settings: TelegramSettings) -> None:
        self._settings = settings
        self._host = settings.host
        self._session: aiohttp.ClientSession | None = None

    @property
    def read_timeout(self) -> float:
        return self._settings.answer_s

    async def initialize(self) -> None:
        """Do nothing; the connection is opened by the first request."""

    async def shutdown(self) -> None:
        """Close all connections; the next request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, url: str, parameters: Mapping[str, Any], wait_s: float = 0.0) -> Any:
        """Return the raw `result` of a method that may take `wait_s` longer than usual."""
        body = await self._exchange(url, parameters, self._settings.answer_s + wait_s)
        return self.parse_json_payload(body)["result"]

    async def do_request(  # noqa: PLR0913 - the library's signature
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,
        write_timeout: Any = BaseRequest.DEFAULT_NONE,
        connect_timeout: Any = BaseRequest.DEFAULT_NONE,
        pool_timeout: Any = BaseRequest.DEFAULT_NONE,
    ) -> tuple[int, bytes]:
        """Send a request; the returned status is always 200.

        Raises `RequestNotSent`, `ResponseLost` or `Refusal`.
        """
        if method != "POST" or (request_data is not None and request_data.contains_files):
            raise NotImplementedError("files are not sent or fetched yet")
        seconds = read_timeout if isinstance(read_timeout, int | float) else self.read_timeout
        parameters = request_data.parameters if request_data else {}
        return 200, await self._exchange(url, parameters, seconds)

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Parse a response, with U+FFFD for invalid UTF-8.

        Raises `UnreadableResponse` or `Refusal`.
        """
        try:
            answer = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise UnreadableResponse("the answer is not JSON", payload[:_HEAD_BYTES]) from None
        if not isinstance(answer, dict):
            raise UnreadableResponse("the answer is not a JSON object", payload[:_HEAD_BYTES])
        if answer.get("ok") is False:
            code = answer.get("error_code")
            raise _refusal(code if isinstance(code, int) else 400, answer)
        if "result" not in answer:
            raise UnreadableResponse("the answer has no result", payload[:_HEAD_BYTES])
        return answer

    async def _exchange(self, url: str, parameters: Mapping[str, Any], read_s: float) -> bytes:
        data = json.dumps(parameters).encode()
        headers = {"Content-Type": "application/json"}
        return await self.carry(url, data, headers, read_s)

    async def carry(
        self, url: str, data: Any, headers: Mapping[str, str] | None, read_s: float
    ) -> bytes:
        """Return the response body. Raises `RequestNotSent`, `ResponseLost` or `Refusal`."""
        # The total may exceed the time to the first byte: a large response on a slow connection.
        timeout = aiohttp.ClientTimeout(
            total=self._settings.connect_s + 2 * read_s,
            connect=self._settings.connect_s,
            sock_read=read_s,
        )
        connection = _RequestConnection()
        with self._classify_failures(connection):
            async with self._open_session().post(
                url,
                data=data,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                trace_request_ctx=connection,
            ) as response:
                body = await self._read(response)
                status = response.status
        if status < 300:
            return body
        if 400 <= status < 500:
            raise _refusal(status, _parse(body))
        raise ResponseLost(f"{self._host} answered with HTTP status {status}")

    async def download(self, url: str) -> AsyncGenerator[bytes]:
        """Yield the bytes of a file. Raises `RequestNotSent`, `ResponseLost` or `Refusal`."""
        timeout = aiohttp.ClientTimeout(
            total=_DOWNLOAD_TIMEOUT_S,
            connect=self._settings.connect_s,
            sock_read=self._settings.answer_s,
        )
        connection = _RequestConnection()
        with self._classify_failures(connection):
            async with self._open_session().get(
                url, timeout=timeout, allow_redirects=False, trace_request_ctx=connection
            ) as response:
                if response.status >= 500:
                    raise ResponseLost(f"{self._host} answered with HTTP status {response.status}")
                if response.status != 200:
                    raise _refusal(response.status, _parse(await self._read(response)))
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    yield chunk

    @contextmanager
    def _classify_failures(self, connection: "_RequestConnection") -> Iterator[None]:
        """Convert failures according to whether the request may have been executed."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            if not connection.is_open:
                raise RequestNotSent(f"no connection to {self._host}: {_reason(exc)}") from None
            raise ResponseLost(f"the connection to {self._host} broke: {_reason(exc)}") from None

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self._settings.body_limit_bytes:
                response.close()
                size = f"{self._settings.body_limit_bytes} bytes"
                raise UnreadableResponse(
                    f"the answer is longer than {size}", bytes(body[:_HEAD_BYTES]), too_large=True
                )
        return bytes(body)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = open_session(
                self._settings.proxy, trace_configs=[_connection_tracing()]
            )
        return self._session


@dataclass(slots=True)
class _RequestConnection:
    """Connection of a request.

    It is open once bytes of the request may reach the server, that is, after the proxy tunnel and
    the TLS handshake.
    """

    is_open: bool = False


def _connection_tracing() -> aiohttp.TraceConfig:
    """Return the tracing that marks the `_RequestConnection` of a request as open."""

    async def mark_open(_: aiohttp.ClientSession, context: SimpleNamespace, *__: object) -> None:
        context.trace_request_ctx.is_open = True

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_end.append(mark_open)
    tracing.on_connection_reuseconn.append(mark_open)
    return tracing


def _reason(exc: BaseException) -> str:
    """Return the reason, without the URL that foreign texts may quote."""
    cause = getattr(exc, "os_error", exc)
    return getattr(cause, "strerror", None) or type(exc).__name__


def _parse(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _refusal(code: int, answer: Mapping[str, Any]) -> Refusal:
    parameters = answer.get("parameters")
    description = str(answer.get("description", "without a reason"))[:300]
    return Refusal(code, description, parameters if isinstance(parameters, dict) else {})
