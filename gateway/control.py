"""The owner's end of the control socket: any `Service`, spoken over HTTP on a Unix socket.

Every call is `POST /<name>` with a JSON object; the answer is `{"value": …}` or
`{"error": {"code", "message", "hint"}}`. `watch` and `messages` answer with JSON lines.
Only the same user or root may speak, and the socket file is 0600 from its first moment.
"""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, cast

from aiohttp import web

from agent.codec import message_to_json
from agent.errors import KoreError
from gateway.service import Service
from gateway.wire import (
    PROTOCOL,
    REQUEST_LIMIT_BYTES,
    decode_object,
    encode_line,
    error_to_json,
    inbound_from_json,
    is_own_user,
    socket_address,
    watch_event_to_json,
)

Call = Callable[[Mapping[str, Any]], Awaitable[Any]]
_GRACE_S = 2.0


class ControlServer:
    """`async with ControlServer(service, path)`: other `kore` processes can reach the service.

    Raises `KoreError` when somebody already listens there, or the socket cannot be made.
    """

    def __init__(self, service: Service, path: Path) -> None:
        self._service = service
        self._path = path
        self._streams: set[asyncio.Task[Any]] = set()
        self._calls: dict[str, Call] = {
            "hello": self._hello,
            "submit": self._submit,
            "answer": lambda a: service.answer(a["nonce"], a["answer"], a["by"]),
            "stop": lambda a: service.stop(a["lane"]),
            "open_console": self._open_console,
            "sessions": self._sessions,
            "bind": lambda a: service.bind(a["lane"], a["session"]),
            "status": self._status,
            "replay": lambda a: service.replay(int(a["seq"])),
            "backup": lambda a: service.backup(Path(a["target"])),
        }

    async def __aenter__(self) -> Self:
        app = web.Application(
            client_max_size=REQUEST_LIMIT_BYTES, middlewares=[_own_user_only, _errors_as_json]
        )
        app.router.add_post("/watch", self._watch)
        app.router.add_post("/messages", self._messages)
        app.router.add_post("/{call}", self._call)
        app.on_shutdown.append(self._end_streams)
        # A watcher that goes away ends its handler, and with it its place among the watchers.
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_GRACE_S
        )
        listener = _listen(self._path)
        self._identity = os.stat(self._path).st_ino
        try:
            await self._runner.setup()
            await web.SockSite(self._runner, listener).start()
        except BaseException:
            listener.close()
            self._remove()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._remove()
        await self._runner.cleanup()

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            if os.stat(self._path).st_ino == self._identity:
                self._path.unlink()

    async def _end_streams(self, _: web.Application) -> None:
        for task in self._streams:
            task.cancel()

    async def _call(self, request: web.Request) -> web.Response:
        name = request.match_info["call"]
        if name not in self._calls:
            raise KoreError(f"the running Kore knows no call {name!r}", hint="Restart the gateway.")
        arguments = _Arguments(decode_object(await request.read()))
        return _json({"value": await self._calls[name](arguments)})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        arguments = _Arguments(decode_object(await request.read()))

        async def lines() -> AsyncIterator[Mapping[str, Any]]:
            async with self._service.watch(arguments["lane"]) as events:
                yield {"type": "watching"}
                async for event in events:
                    yield watch_event_to_json(event)

        return await self._stream(request, lines())

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        arguments = _Arguments(decode_object(await request.read()))
        messages = await self._service.messages(arguments["session"])

        async def lines() -> AsyncIterator[Mapping[str, Any]]:
            for message in messages:
                yield message_to_json(message)
            yield {"type": "end"}

        return await self._stream(request, lines())

    async def _stream(
        self, request: web.Request, lines: AsyncIterator[Mapping[str, Any]]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/jsonl"})
        await response.prepare(request)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._streams.add(task)
        try:
            async with aclosing(cast("Any", lines)):
                async for line in lines:
                    await response.write(encode_line(line))
        except ConnectionError:
            pass  # the reader has left
        except KoreError as exc:
            await response.write(encode_line({"type": "failed", "error": error_to_json(exc)}))
        finally:
            self._streams.discard(task)
        return response

    async def _hello(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"protocol": PROTOCOL, "pid": os.getpid()}

    async def _submit(self, arguments: Mapping[str, Any]) -> None:
        await self._service.submit(inbound_from_json(arguments["message"]))

    async def _open_console(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        opened = await self._service.open_console(arguments["session"], arguments["fresh"])
        return asdict(opened)

    async def _sessions(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [asdict(session) for session in await self._service.sessions(arguments["limit"])]

    async def _status(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._service.status()


class _Arguments(dict[str, Any]):
    """A call's arguments; a missing one is the caller's error."""

    def __missing__(self, name: str) -> Any:
        raise KoreError(f"the call lacks its argument {name!r}")


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def _own_user_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    connection = request.get_extra_info("socket")
    if connection is None or not is_own_user(connection):
        return _json({"error": {"code": "denied", "message": "another user's Kore"}}, 403)
    return await handler(request)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        error = KoreError(f"a request to Kore is limited to {REQUEST_LIMIT_BYTES:,} bytes")
    except KoreError as exc:
        error = exc
    return _json({"error": error_to_json(error)}, 400)


def _json(data: Mapping[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=encode_line(data), status=status, content_type="application/json")


def _listen(path: Path) -> socket.socket:
    """A listening socket at `path`; a file that nobody answers on is replaced."""
    try:
        with socket_address(path) as address:
            _clear_stale(path, address)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            before = os.umask(0o177)
            try:
                listener.bind(address)
            except OSError:
                listener.close()
                raise
            finally:
                os.umask(before)
    except OSError as exc:
        raise KoreError(
            f"cannot open the control socket {path}: {exc.strerror or exc}",
            hint="The folder must exist, be writable and lie on a local disk.",
        ) from exc
    listener.listen()
    listener.setblocking(False)
    return listener


def _clear_stale(path: Path, address: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise KoreError(f"{path} is in the way: it is not a socket", hint="Move it elsewhere.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
    raise KoreError(f"another Kore already listens on {path}", hint="Stop it first: kore status")
