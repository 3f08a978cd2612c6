"""The owner's end of the control socket: any `Service`, spoken over HTTP on a Unix socket.

Every call is `POST /<name>` with a JSON object; the answer is `{"value": …}` or
`{"error": {"code", "message", "hint"}}`. `watch`, `messages` and `lines` answer with JSON lines.
Only the same user or root may speak. It is HTTP/1.0, one connection a call, by hand: a web
framework would take longer to import than a whole turn takes (`curl --unix-socket` works).
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from agent.errors import KoreError, PolicyDenied
from agent.i18n import current_locale, language_of, set_locale
from agent.serialization import message_to_json
from gateway.control.protocol import (
    PROTOCOL,
    REQUEST_LIMIT_BYTES,
    decode_object,
    encode_line,
    error_to_json,
    inbound_from_json,
    is_own_user,
    watch_event_to_json,
)
from gateway.control.service import Service
from gateway.control.unix_listener import UnixListener

log = logging.getLogger(__name__)

_GRACE_S = 2.0
_ACCEPT_S = 0.02
_REQUEST_S = 10.0
_HEAD_LIMIT_BYTES = 16_384
_CONNECTIONS = 256
_PHRASES = {200: "OK", 400: "Bad Request", 403: "Forbidden", 500: "Internal Server Error"}


class Arguments(dict[str, Any]):
    """A call's arguments; a missing one is the caller's error."""

    def __missing__(self, name: str) -> Any:
        raise KoreError(f"the call lacks its argument {name!r}")


Call = Callable[[Arguments], Awaitable[Any]]
Stream = Callable[[Arguments], AsyncIterator[Mapping[str, Any]]]


class ControlServer:
    """`async with ControlServer(service, path)`: other `kore` processes can reach the service.

    Raises `KoreError` when somebody already listens there, or the socket cannot be made.
    """

    def __init__(self, service: Service, path: Path) -> None:
        self._service = service
        self._path = path
        self._tasks: dict[asyncio.Task[None], bool] = {}
        self._streams: dict[str, Stream] = {"watch": self._watch, "messages": self._messages}
        self._streams["lines"] = self._lines
        self._calls: dict[str, Call] = {
            "hello": self._hello,
            "submit": self._submit,
            "answer": lambda a: service.answer_approval(a["nonce"], a["answer"], a["by"]),
            "approvals": self._approvals,
            "stop": lambda a: service.stop_turn(a["lane"]),
            "open_console": self._open_console,
            "sessions": self._sessions,
            "bound": lambda a: service.bound_session(a["lane"]),
            "last_session": lambda a: service.last_session(a["principal"]),
            "glimpse": self._glimpse,
            "queue_mode": lambda a: service.queue_mode(a["lane"]),
            "standing": lambda a: service.conversation_status(a["lane"]),
            "background": lambda a: service.background_tasks(a["session"]),
            "bind": lambda a: service.bind_session(a["lane"], a["session"]),
            "search": self._search,
            "fork": lambda a: service.fork_session(a["session"]),
            "rename": lambda a: service.rename_session(a["session"], a["title"]),
            "take_in": lambda a: service.import_session(Path(a["file"])),
            "set_status": self._set_status,
            "status": lambda _: service.status(),
            "person": lambda a: service.summarize_person(a["principal"]),
            "export_person": lambda a: service.export_person(a["principal"], Path(a["target"])),
            "delete_person": lambda a: service.delete_person(a["principal"], bool(a["copies"])),
            "reload": lambda _: service.reload(),
            "hand_over": lambda a: service.hand_over(a["successor"]),
            "replay": lambda a: service.replay(int(a["seq"])),
            "people": lambda _: service.list_people(),
            "approve": lambda a: service.approve_pairing(a["code"]),
            "invite": lambda a: service.invite_owner(a["channel"], a["account"]),
            "revoke": lambda a: service.revoke_pairing(a["who"]),
            "grants": lambda _: service.list_grants(),
            "jobs": lambda _: service.list_jobs(),
            "schedule": lambda a: service.change_job(a["action"], a["wanted"]),
            "take_back": lambda a: service.revoke_grants(a["grant"]),
            "backup": lambda a: service.backup(Path(a["target"])),
        }

    async def __aenter__(self) -> Self:
        self._listener = UnixListener(self._path)
        self._server = await asyncio.start_unix_server(
            self._connected, sock=self._listener.socket, limit=_HEAD_LIMIT_BYTES
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.remove()
        # Who connected before that is served: asyncio would leave a connection that is just being
        # accepted open and unanswered, as long as this process lives.
        await asyncio.sleep(_ACCEPT_S)
        self._server.close()
        for task, streaming in self._tasks.items():
            if streaming:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GRACE_S)
        for task in (late := tuple(self._tasks)):
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _CONNECTIONS:
            writer.close()
            return
        # The server is the parent: it ends every one of these before it ends itself.
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks[task] = False
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a call on the control socket failed", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the caller has left, or never finished its request
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        if not is_own_user(connection):
            error = PolicyDenied("this Kore belongs to another user")
            _reply(writer, 403, {"error": error_to_json(error)})
            return
        # What stands here if the call ends as neither: a bug, or the server's end.
        status, data = 500, {"error": {"code": "failed", "message": "its log says why"}}
        try:
            async with asyncio.timeout(_REQUEST_S):
                name, arguments = await _request(reader)
            if name in self._streams:
                status = 0
                await self._stream(self._streams[name](arguments), reader, writer)
                return
            if name not in self._calls:
                raise KoreError(f"the running Kore knows no call {name!r}")
            status, data = 200, {"value": await self._calls[name](arguments)}
        except KoreError as exc:
            status, data = 400, {"error": error_to_json(exc)}
        finally:
            if status:
                _reply(writer, status, data)

    async def _stream(
        self,
        lines: AsyncIterator[Mapping[str, Any]],
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
                # A watcher that goes away loses its place among the watchers at once.
                await asyncio.wait((pump, left), return_when=asyncio.FIRST_COMPLETED)
                pump.cancel()
                left.cancel()
        except* ConnectionError:
            pass  # the caller has left

    async def _watch(self, arguments: Arguments) -> AsyncIterator[Mapping[str, Any]]:
        async with self._service.watch(arguments["lane"]) as events:
            yield {"type": "watching"}
            async for event in events:
                yield watch_event_to_json(event)

    async def _messages(self, arguments: Arguments) -> AsyncIterator[Mapping[str, Any]]:
        for message in await self._service.load_messages(arguments["session"]):
            yield message_to_json(message)
        yield {"type": "end"}

    async def _lines(self, arguments: Arguments) -> AsyncIterator[Mapping[str, Any]]:
        for line in await self._service.export_session(arguments["session"]):
            yield {"type": "line", "line": line}
        yield {"type": "end"}

    async def _hello(self, _: Arguments) -> dict[str, Any]:
        return {"protocol": PROTOCOL, "pid": os.getpid()}

    async def _submit(self, arguments: Arguments) -> None:
        await self._service.submit(inbound_from_json(arguments["message"]))

    async def _glimpse(self, arguments: Arguments) -> dict[str, Any]:
        first, last = int(arguments["first"]), int(arguments["last"])
        return asdict(await self._service.preview_session(arguments["session"], first, last))

    async def _search(self, arguments: Arguments) -> list[dict[str, Any]]:
        found = await self._service.search_messages(arguments["words"], arguments["limit"])
        return [asdict(one) for one in found]

    async def _set_status(self, arguments: Arguments) -> str:
        status = arguments["status"]
        if status not in ("open", "paused", "closed"):
            raise KoreError(f"no session can be {status!r}")
        return await self._service.set_session_status(arguments["session"], status)

    async def _open_console(self, arguments: Arguments) -> dict[str, Any]:
        opened = await self._service.open_console(arguments["session"], arguments["fresh"])
        return asdict(opened)

    async def _approvals(self, _: Arguments) -> list[dict[str, Any]]:
        return [asdict(question) for question in await self._service.list_approvals()]

    async def _sessions(self, arguments: Arguments) -> list[dict[str, Any]]:
        return [
            asdict(session) for session in await self._service.list_sessions(arguments["limit"])
        ]


async def _pump(lines: AsyncIterator[Mapping[str, Any]], writer: asyncio.StreamWriter) -> None:
    try:
        async with aclosing(lines):  # type: ignore[type-var]  # both streams are generators
            async for line in lines:
                writer.write(encode_line(line))
                await writer.drain()
    except KoreError as exc:
        writer.write(encode_line({"type": "failed", "error": error_to_json(exc)}))
    except ConnectionError:
        pass  # the reader has left


async def _request(reader: asyncio.StreamReader) -> tuple[str, Arguments]:
    """The name of the call and its arguments. Raises `KoreError` for anything else."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.LimitOverrunError as exc:
        raise KoreError("the head of a request is too long") from exc
    method, _, target = head[0].partition(" ")
    fields = dict(line.lower().split(":", 1) for line in head[1:] if ":" in line)
    size = fields.get("content-length", "0").strip()
    # This task serves one call: what it says is for whoever made it.
    set_locale(language_of(fields.get("accept-language", "").strip()) or current_locale())
    if method != "POST" or not size.isdecimal():
        raise KoreError("expected POST with a Content-Length")
    if int(size) > REQUEST_LIMIT_BYTES:
        raise KoreError(f"a request to Kore is limited to {REQUEST_LIMIT_BYTES:,} bytes")
    body = await reader.readexactly(int(size))
    return target.split(" ")[0].lstrip("/"), Arguments(decode_object(body))


def _head(writer: asyncio.StreamWriter, status: int, *fields: str) -> None:
    lines = (f"HTTP/1.0 {status} {_PHRASES[status]}", "Connection: close", *fields, "", "")
    writer.write("\r\n".join(lines).encode())


def _reply(writer: asyncio.StreamWriter, status: int, data: Mapping[str, Any]) -> None:
    body = encode_line(data)
    _head(writer, status, "Content-Type: application/json", f"Content-Length: {len(body)}")
    writer.write(body)
