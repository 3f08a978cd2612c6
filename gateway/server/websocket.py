"""Multiplexed calls over one connection: `/v1/connect`.

A client sends `{"id", "call", "arguments"}`, `{"id", "ack": COUNT}` or `{"id", "cancel": true}`. It
receives `{"id", "value"}`, `{"id", "error"}`, and for a stream `{"id", "ready": true}`, a frame
`{"id", "item"}` for each event, and `{"id", "end": true}`. At most `MAX_UNACKNOWLEDGED` items of a
stream are in flight, so an unread stream does not block the others. A call with `"blocks": true`
also receives the `blocks` of each item.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from agent.errors import KoreError
from agent.events import ApprovalAsked
from agent.i18n import t
from agent.security.policy.reasons import localized
from agent.serialization import dumps
from gateway.control.calls import Call
from gateway.control.protocol import error_to_json
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.core.question_view import with_view
from gateway.presenter.wire import WireBlocks
from gateway.server.budgets import BudgetExceeded, TokenBudgets, request_limit
from gateway.server.call_routes import encoded, json_object, prepared, set_language
from gateway.server.guard import ACCESS, CONNECT_PATH, Guard
from gateway.server.handshake import KeyHandshake, new_socket, refuse
from gateway.server.revocation import RevocationWatch
from gateway.server.tokens import AccessToken, TokenFile

log = logging.getLogger(__name__)

MAX_UNACKNOWLEDGED = 256
MAX_CALLS = 64


class Connections:
    """Open connections, which are closed with the server."""

    def __init__(
        self,
        service: Service,
        tokens: TokenFile,
        guard: Guard,
        handshake: KeyHandshake,
        revocations: RevocationWatch,
        budgets: TokenBudgets,
    ) -> None:
        self._service = service
        self._tokens = tokens
        self._guard = guard
        self._handshake = handshake
        self._revocations = revocations
        self._budgets = budgets
        self._open: set[web.WebSocketResponse] = set()

    def add_to(self, app: web.Application) -> None:
        app.router.add_get(CONNECT_PATH, self._connect)
        app.on_shutdown.append(self._close_all)

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        set_language(request)
        access = request.get(ACCESS)
        if access is None:
            socket, proven = await self._handshake.open(
                request, self._tokens.find_key, request_limit
            )
            if proven is None:
                return socket
            access = proven[1]
            if error := self._guard.admit(request, access):
                await refuse(socket, error)
                return socket
        else:
            socket = new_socket(request_limit(access))
            await socket.prepare(request)
        self._open.add(socket)
        close = partial(socket.close, code=WSCloseCode.POLICY_VIOLATION, message=b"token revoked")
        try:
            with self._revocations.watched(access, close):
                await _Connection(socket, self._service, access, self._budgets).run()
        finally:
            self._open.discard(socket)
        return socket

    async def _close_all(self, _: web.Application) -> None:
        for socket in tuple(self._open):
            await socket.close(code=WSCloseCode.GOING_AWAY, message=b"Kore stops")


class _Stream:
    """Flow control of a stream: the number of items that may still be sent."""

    def __init__(self) -> None:
        self._left = MAX_UNACKNOWLEDGED
        self._has_room = asyncio.Event()
        self._has_room.set()

    def acknowledge(self, count: int) -> None:
        self._left = min(MAX_UNACKNOWLEDGED, self._left + count)
        if self._left > 0:
            self._has_room.set()

    async def take(self) -> None:
        await self._has_room.wait()
        self._left -= 1
        if self._left <= 0:
            self._has_room.clear()


class _Connection:
    """Connection of one client."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        service: Service,
        access: AccessToken,
        budgets: TokenBudgets,
    ) -> None:
        self._socket = socket
        self._service = service
        self._access = access
        self._budgets = budgets
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._streams: dict[int, _Stream] = {}

    async def run(self) -> None:
        """Serve the client until one side disconnects, then cancel its calls."""
        try:
            async for message in self._socket:
                if message.type is not WSMsgType.TEXT:
                    await self._socket.close(code=WSCloseCode.UNSUPPORTED_DATA)
                    return
                await self._budgets.admit_frame(self._access, len(message.data))
                await self._take(message.data)
        finally:
            for task in self._tasks.values():
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks.values())

    async def _take(self, text: str) -> None:
        try:
            frame = json_object(text)
            number = frame.get("id")
            if type(number) is not int:
                raise KoreError(t("a frame needs an id, which is an integer"))
        except KoreError as exc:
            await self._send({"id": None, "error": error_to_json(exc)})
            return
        if "ack" in frame:
            if number in self._streams and type(frame["ack"]) is int and frame["ack"] > 0:
                self._streams[number].acknowledge(frame["ack"])
        elif "cancel" in frame:
            if number in self._tasks:
                self._tasks[number].cancel()
        elif error := self._obstacle(number):
            await self._send({"id": number, "error": error_to_json(error)})
        else:
            task = asyncio.create_task(self._serve(number, frame), name=f"call {number}")
            self._tasks[number] = task
            task.add_done_callback(partial(self._end, number))

    def _obstacle(self, number: int) -> KoreError | None:
        if number in self._tasks:
            return KoreError(t("the id {number} is in use", number=number))
        if len(self._tasks) >= MAX_CALLS:
            return KoreError(t("at most {count} calls at a time", count=MAX_CALLS))
        try:
            self._budgets.check_call(self._access)
        except BudgetExceeded as exc:
            return exc
        return None

    async def _serve(self, number: int, frame: Mapping[str, Any]) -> None:
        try:
            arguments = frame.get("arguments", {})
            if not isinstance(arguments, dict):
                raise KoreError(t("arguments: found something else, expected an object"))
            call, values = prepared(self._access, str(frame.get("call", "")), arguments)
            if call.shape == "stream":
                blocks = WireBlocks() if frame.get("blocks") is True else None
                await self._stream(number, call, values, blocks)
            else:
                async with self._budgets.working(self._access):
                    value = encoded(call, await getattr(self._service, call.name)(**values))
                await self._send({"id": number, "value": value})
        except asyncio.CancelledError:
            await self._send({"id": number, "end": True})
            raise
        except KoreError as exc:
            await self._send({"id": number, "error": error_to_json(exc)})
        except ConnectionError:
            pass  # the client has disconnected

    def _end(self, number: int, task: asyncio.Task[None]) -> None:
        self._tasks.pop(number, None)
        if not task.cancelled() and (bug := task.exception()) is not None:
            log.error("a call of a client failed", exc_info=bug)
            error = KoreError(t("Kore failed to handle this call; its log says why"))
            answer = self._send({"id": number, "error": error_to_json(error)})
            # Tracked like a call, so that it is cancelled with the connection.
            self._tasks[number] = asyncio.ensure_future(answer)
            self._tasks[number].add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _stream(
        self, number: int, call: Call, values: Mapping[str, Any], blocks: WireBlocks | None
    ) -> None:
        stream = self._streams[number] = _Stream()
        try:
            async with getattr(self._service, call.name)(**values) as events:
                await self._send({"id": number, "ready": True})
                async for event in events:
                    await stream.take()
                    item = call.encode_result(_localized_event(event))
                    frame = {"id": number, "item": item}
                    if blocks is not None and (event_blocks := blocks.take(event)):
                        frame["blocks"] = event_blocks
                    await self._send(frame)
            raise ConnectionLost(t("Kore is no longer running"))
        finally:
            del self._streams[number]

    async def _send(self, frame: Mapping[str, Any]) -> None:
        # A client that has disconnected receives nothing.
        if not self._socket.closed:
            with suppress(ConnectionError):
                await self._socket.send_str(dumps(frame))


def _localized_event(event: Any) -> Any:
    """Return an event with its question in the client's language."""
    if not isinstance(event, ApprovalAsked):
        return event
    request = replace(event.request, reason=localized(event.request.reason))
    return with_view(replace(event, request=request))
