"""Client of the control socket: the `Service` of the process that owns the data.

It writes HTTP/1.0 itself, because importing an HTTP library would delay each message.
`protocol.py` describes the wire format.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from agent.errors import KoreError
from agent.i18n import current_locale, t
from gateway.control.calls import Call, find_call
from gateway.control.protocol import (
    HELLO,
    LINE_LIMIT_BYTES,
    PROTOCOL,
    REQUEST_LIMIT_BYTES,
    decode_object,
    encode_line,
    error_from_json,
    is_own_user,
)
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.runtime.paths import socket_address

_CONNECT_TIMEOUT_S = 5.0


class ControlClient:
    """`Service` over the socket at `path`. Every call may raise `ConnectionLost`.

    Its methods come from the table of calls.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    async def connect(cls, path: Path, *, timeout_s: float = _CONNECT_TIMEOUT_S) -> Service | None:
        """Return a client; None when no process listens at `path`.

        Raises `KoreError` when the listener belongs to another user or is a different version,
        `ConnectionLost` when it does not answer: it is suspended, or about to exit.
        """
        client = cls(path)
        try:
            async with asyncio.timeout(timeout_s):
                hello = await client._hello()
        except TimeoutError as exc:
            raise ConnectionLost(
                t("the running Kore does not respond"),
                hint=t(
                    "It may be suspended (Ctrl-Z) or busy; `cat {path}` shows its process.",
                    path=path.with_name("kore.lock"),
                ),
            ) from exc
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except PermissionError as exc:
            raise KoreError(t("{path} belongs to another user", path=path)) from exc
        if hello.get("protocol") != PROTOCOL:
            raise KoreError(
                t("the running Kore is a different version"), hint=t("Restart the gateway.")
            )
        return client

    def __getattr__(self, name: str) -> Any:
        """Return the method of a call."""
        call = find_call(name)
        if call is None:
            raise AttributeError(name)
        match call.shape:
            case "stream":
                return partial(self._watch, call)
            case "list":
                return partial(self._call_list, call)
        return partial(self._call, call)

    async def _call(self, call: Call, *args: Any, **kwargs: Any) -> Any:
        async with self._open(call.name, call.encode_arguments(args, kwargs)) as reader:
            return call.decode_result((await _line(reader))["value"])

    async def _call_list(self, call: Call, *args: Any, **kwargs: Any) -> list[Any]:
        items = []
        async with self._open(call.name, call.encode_arguments(args, kwargs)) as reader:
            while "item" in (line := await _line(reader)):
                items.append(call.decode_result(line["item"]))
        return items

    @asynccontextmanager
    async def _watch(
        self, call: Call, *args: Any, **kwargs: Any
    ) -> AsyncIterator[AsyncIterator[Any]]:
        async with self._open(call.name, call.encode_arguments(args, kwargs)) as reader:
            await _line(reader)  # "ready": from now on, no event is missed
            yield _items(call, reader)

    async def _hello(self) -> dict[str, Any]:
        async with self._open(HELLO, {}) as reader:
            return dict((await _line(reader))["value"])

    @asynccontextmanager
    async def _open(
        self, name: str, arguments: Mapping[str, Any]
    ) -> AsyncIterator[asyncio.StreamReader]:
        """Send a request; yield a reader at the start of a successful response's body."""
        body = encode_line(arguments)
        if len(body) > REQUEST_LIMIT_BYTES:
            raise KoreError(
                t(
                    "a request to Kore is limited to {REQUEST_LIMIT_BYTES:,} bytes",
                    REQUEST_LIMIT_BYTES=REQUEST_LIMIT_BYTES,
                )
            )
        try:
            with socket_address(self._path) as address:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    reader, writer = await asyncio.open_unix_connection(
                        address, limit=LINE_LIMIT_BYTES
                    )
        except (FileNotFoundError, ConnectionRefusedError) as exc:
            if name == HELLO:
                raise
            raise ConnectionLost(t("Kore is no longer running")) from exc
        try:
            if not is_own_user(writer.get_extra_info("socket")):
                raise KoreError(t("{path} belongs to another user's process", path=self._path))
            fields = f"Content-Length: {len(body)}\r\nAccept-Language: {current_locale()}"
            head = f"POST /{name} HTTP/1.0\r\n{fields}\r\n\r\n"
            with _as_lost():
                writer.write(head.encode() + body)
                await writer.drain()
                status = await _status(reader)
            if status != 200:
                raise await _refusal(reader, status)
            yield reader
        finally:
            writer.close()


async def _status(reader: asyncio.StreamReader) -> int:
    """Return the status code, and skip the headers."""
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split(None, 2)[1])


async def _refusal(reader: asyncio.StreamReader, status: int) -> KoreError:
    body = await reader.read(LINE_LIMIT_BYTES)
    if status >= 500:
        return KoreError(
            t("the running Kore failed to handle this request"),
            hint=t("See its log for the reason."),
        )
    return error_from_json(decode_object(body).get("error", {}))


async def _items(call: Call, reader: asyncio.StreamReader) -> AsyncIterator[Any]:
    while True:
        line = await _line(reader)
        try:
            item = call.decode_result(line["item"])
        except KoreError:
            continue  # an event that only a newer Kore knows
        yield item


async def _line(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Return the next JSON line. Raises `ConnectionLost` at the end of the stream, and errors that
    the other side reports."""
    with _as_lost():
        line = await reader.readuntil(b"\n")
    data = decode_object(line)
    if "error" in data:
        raise error_from_json(data["error"])
    return data


@contextmanager
def _as_lost() -> Iterator[None]:
    try:
        yield
    except (asyncio.IncompleteReadError, ConnectionError) as exc:
        raise ConnectionLost(t("Kore stopped during the request")) from exc
    except asyncio.LimitOverrunError as exc:
        raise KoreError(
            t(
                "Kore sent a line longer than {LINE_LIMIT_BYTES:,} bytes",
                LINE_LIMIT_BYTES=LINE_LIMIT_BYTES,
            )
        ) from exc
