"""Server of the control socket: makes a `Service` available to other processes.

`calls.py` has the table of calls, `protocol.py` describes the wire format. Only the same user or
root may connect. The server writes HTTP/1.0 itself: importing a web framework would take longer
than a turn (`curl --unix-socket` works).
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any, Self

from agent.errors import KoreError, PolicyDenied
from agent.i18n import current_locale, language_of, set_locale, t
from gateway.control.calls import Call, find_call
from gateway.control.protocol import (
    HELLO,
    PROTOCOL,
    REQUEST_LIMIT_BYTES,
    decode_object,
    encode_line,
    error_to_json,
    is_own_user,
)
from gateway.control.service import Service
from gateway.control.unix_listener import UnixListener

log = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 2.0
_ACCEPT_TIMEOUT_S = 0.02
_REQUEST_TIMEOUT_S = 10.0
_HEAD_LIMIT_BYTES = 16_384
_MAX_CONNECTIONS = 256
_PHRASES = {200: "OK", 400: "Bad Request", 403: "Forbidden", 500: "Internal Server Error"}


class ControlServer:
    """`async with ControlServer(service, path)`: other `kore` processes can reach the service.

    Raises `KoreError` when a process already listens there, or the socket cannot be made.
    """

    def __init__(self, service: Service, path: Path) -> None:
        self._service = service
        self._path = path
        self._tasks: dict[asyncio.Task[None], bool] = {}

    async def __aenter__(self) -> Self:
        self._listener = UnixListener(self._path)
        self._server = await asyncio.start_unix_server(
            self._handle_connection, sock=self._listener.socket, limit=_HEAD_LIMIT_BYTES
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.remove()
        # Serve clients that connected before: asyncio would leave a connection that is just being
        # accepted open and unanswered until this process ends.
        await asyncio.sleep(_ACCEPT_TIMEOUT_S)
        self._server.close()
        for task, streaming in self._tasks.items():
            if streaming:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_TIMEOUT_S)
        for task in (late := tuple(self._tasks)):
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._tasks) >= _MAX_CONNECTIONS:
            writer.close()
            return
        # The server is the parent of these tasks and ends them before it ends itself.
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks[task] = False
        task.add_done_callback(self._forget_task)

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a call on the control socket failed", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the caller is gone, or never finished its request
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        if not is_own_user(connection):
            error = PolicyDenied("this Kore belongs to another user")
            _reply(writer, 403, {"error": error_to_json(error)})
            return
        # The reply when the call neither returns nor raises `KoreError`: a bug or a shutdown.
        status = 500
        data: dict[str, Any] = {"error": {"code": "failed", "message": "its log says why"}}
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                name, arguments = await _request(reader)
            if name == HELLO:
                status, data = 200, {"value": {"protocol": PROTOCOL, "pid": os.getpid()}}
                return
            call = find_call(name)
            if call is None:
                raise KoreError(
                    t(
                        "the running Kore is a different version: it does not know the call"
                        " {name!r}",
                        name=name,
                    )
                )
            perform = getattr(self._service, call.name)
            values = call.decode_arguments(arguments)
            match call.shape:
                case "value":
                    result = call.encode_result(await perform(**values))
                    status, data = 200, {"value": result}
                case "list":
                    items = await perform(**values)
                    status = 0
                    await _send_list(call, items, writer)
                case "stream":
                    status = 0
                    await self._stream(_events(call, perform(**values)), reader, writer)
        except KoreError as exc:
            status, data = 400, {"error": error_to_json(exc)}
        finally:
            if status:
                _reply(writer, status, data)

    async def _stream(
        self,
        lines: AsyncGenerator[Mapping[str, Any], None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = True
        _head(writer, 200)
        try:
            async with asyncio.TaskGroup() as group:
                pump = group.create_task(_pump(lines, writer))
                left = group.create_task(reader.read())
                # Stop the subscription as soon as the client disconnects.
                await asyncio.wait((pump, left), return_when=asyncio.FIRST_COMPLETED)
                pump.cancel()
                left.cancel()
        except* ConnectionError:
            pass  # the caller is gone


async def _send_list(call: Call, items: Sequence[Any], writer: asyncio.StreamWriter) -> None:
    _head(writer, 200)
    for item in items:
        writer.write(encode_line({"item": call.encode_result(item)}))
        await writer.drain()
    writer.write(encode_line({"end": True}))


async def _events(
    call: Call, subscription: AbstractAsyncContextManager[AsyncIterator[Any]]
) -> AsyncGenerator[Mapping[str, Any], None]:
    async with subscription as events:
        yield {"ready": True}
        async for event in events:
            yield {"item": call.encode_result(event)}


async def _pump(
    lines: AsyncGenerator[Mapping[str, Any], None], writer: asyncio.StreamWriter
) -> None:
    try:
        async with aclosing(lines):
            async for line in lines:
                writer.write(encode_line(line))
                await writer.drain()
    except KoreError as exc:
        writer.write(encode_line({"error": error_to_json(exc)}))
    except ConnectionError:
        pass  # the reader is gone


async def _request(reader: asyncio.StreamReader) -> tuple[str, dict[str, Any]]:
    """Return the name of the call and its arguments. Raises `KoreError` for a malformed request."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.LimitOverrunError as exc:
        raise KoreError("the head of a request is too long") from exc
    method, _, target = head[0].partition(" ")
    fields = dict(line.lower().split(":", 1) for line in head[1:] if ":" in line)
    size = fields.get("content-length", "0").strip()
    # This task serves one call, so its texts are in the language of the caller.
    set_locale(language_of(fields.get("accept-language", "").strip()) or current_locale())
    if method != "POST" or not size.isdecimal():
        raise KoreError("expected POST with a Content-Length")
    if int(size) > REQUEST_LIMIT_BYTES:
        raise KoreError(
            t(
                "a request to Kore is limited to {REQUEST_LIMIT_BYTES:,} bytes",
                REQUEST_LIMIT_BYTES=REQUEST_LIMIT_BYTES,
            )
        )
    body = await reader.readexactly(int(size))
    return target.split(" ")[0].lstrip("/"), decode_object(body)


def _head(writer: asyncio.StreamWriter, status: int, *fields: str) -> None:
    lines = (f"HTTP/1.0 {status} {_PHRASES[status]}", "Connection: close", *fields, "", "")
    writer.write("\r\n".join(lines).encode())


def _reply(writer: asyncio.StreamWriter, status: int, data: Mapping[str, Any]) -> None:
    body = encode_line(data)
    _head(writer, status, "Content-Type: application/json", f"Content-Length: {len(body)}")
    writer.write(body)
