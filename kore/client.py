"""Client of a Kore in another process or on another machine, which runs `kore serve`.

    async with Client("http://127.0.0.1:8790", token) as kore:
        session = await kore.send(None, "What is new in this project?")
        async for event in kore.follow(session):
            if event["type"] == "message":
                print(event["seq"], event["message"]["role"])
            if event["type"] in ("turn_end", "idle"):
                break

Calls, arguments, results and events are JSON values: docs/protocol.md and docs/openapi.json.
The token is never sent: both sides prove that they know its key, the server first.
A broken connection is reopened, and no message is lost or repeated: `send` retries under the same
id, and `follow` continues after the last message that it has yielded.
"""

import asyncio
import ipaddress
import itertools
import json
import os
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import aiohttp
from yarl import URL

from agent.security.key_proof import KeyClaim, KeyMismatch, answer, key_of, literal_address

# Of the server's window of 256 items.
_ACK_AFTER = 64
_HEARTBEAT_INTERVAL_S = 15.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0
_FRAME_LIMIT_BYTES = 16 * 1024 * 1024
_PROOF_TIMEOUT_S = 10.0
_PATH_LIMIT_BYTES = 100
# Transient errors: the owner of the data changes, or this client was too slow.
_PASSING = frozenset({"owner-lost", "handed-over"})

Event = Mapping[str, Any]


class CallFailed(Exception):
    """Kore rejected a call; docs/errors.md lists the values of `code`."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message", "")))
        self.code = str(error.get("code", "error"))
        self.hint = error.get("hint")


class Disconnected(Exception):
    """The connection broke, and could not be reopened in time."""


class Client:
    """Client with one WebSocket, which opens at the first call and again after a failure."""

    def __init__(self, address: str, token: str = "", *, patience_s: float = 120.0) -> None:
        """Create a client without connecting.

        `address` is `https://HOST:PORT`, on this machine also `http://HOST:PORT` or `unix:/PATH`
        (no token needed). `http://localhost` is 127.0.0.1: at `::1` another user may listen. After
        a lost connection, the client retries for `patience_s` seconds.

        Raises `ValueError` for another machine without https: others could listen.
        """
        if not address.startswith(("unix:", "https:")) and not _is_loopback(address):
            raise ValueError(f"{address} is on another machine: that needs https")
        self._is_unix = address.startswith("unix:")
        self._address = (
            "http://localhost" if self._is_unix else literal_address(address.rstrip("/"))
        )
        self._path = address.removeprefix("unix:")
        self._token = "" if self._is_unix else token
        self._patience_s = patience_s
        self._ids = itertools.count(1)
        self._frames: dict[int, asyncio.Queue[Event | None]] = {}
        self._opening = asyncio.Lock()
        self._http: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    def local(cls, home: Path | None = None) -> "Client":
        """Return a client of this user's server on this machine, found by its `server.json`.

        Raises `OSError` or `ValueError` if there is none.
        """
        folder = home or Path(os.environ.get("KORE_HOME") or Path.home() / ".kore")
        access = json.loads((folder / "server.json").read_bytes())
        return cls(access["address"])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def call(self, name: str, **arguments: Any) -> Any:
        """Return the result of a call.

        Raises `CallFailed`, or `Disconnected` if the connection breaks before the answer; the call
        may have taken effect.
        """
        number, frames = await self._begin(name, arguments)
        try:
            return (await _next(frames))["value"]
        finally:
            self._frames.pop(number, None)

    async def send(self, session: str | None, text: str, **more: Any) -> str:
        """Send a message; return the session's id after the message is on disk.

        It is accepted only once, even if the connection breaks. Raises `CallFailed`,
        `Disconnected`.
        """
        if session is None:
            session = str(await self._until_done("create_session", {}))
        arguments = {"session": session, "text": text, "event_id": uuid.uuid4().hex, **more}
        return str(await self._until_done("send_message", arguments))

    async def follow(self, session: str, after: int = 0, **more: Any) -> AsyncIterator[Event]:
        """Yield the events of a session after message number `after`, endlessly.

        Each message occurs once. Raises `CallFailed`, `Disconnected`.
        """
        tries = _Tries(self._patience_s)
        while True:
            arguments = {"session": session, "after": after, **more}
            try:
                async for event in self._stream("follow_session", arguments):
                    tries.succeed()
                    if event["type"] == "message":
                        after = event["seq"]
                    elif event["type"] == "reset":
                        after = 0
                    yield event
            except (Disconnected, CallFailed) as exc:
                await tries.wait_after(exc)

    async def _until_done(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Make a call that is safe to repeat, with retries."""
        tries = _Tries(self._patience_s)
        while True:
            try:
                return await self.call(name, **arguments)
            except (Disconnected, CallFailed) as exc:
                await tries.wait_after(exc)

    async def _stream(self, name: str, arguments: Mapping[str, Any]) -> AsyncIterator[Event]:
        number, frames = await self._begin(name, arguments)
        try:
            unacknowledged = 0
            while "end" not in (frame := await _next(frames)):
                if "item" not in frame:
                    continue
                yield frame["item"]
                unacknowledged += 1
                if unacknowledged == _ACK_AFTER:
                    await self._write({"id": number, "ack": unacknowledged})
                    unacknowledged = 0
        finally:
            if self._frames.pop(number, None) is not None:
                with suppress(Disconnected):
                    await self._write({"id": number, "cancel": True})

    async def _begin(
        self, name: str, arguments: Mapping[str, Any]
    ) -> "tuple[int, asyncio.Queue[Event | None]]":
        async with self._opening:
            if self._socket is None or self._socket.closed:
                await self._close()
                await self._open()
        number = next(self._ids)
        frames: asyncio.Queue[Event | None] = asyncio.Queue()
        self._frames[number] = frames
        await self._write({"id": number, "call": name, "arguments": dict(arguments)})
        if self._reading is None or self._reading.done():
            self._frames.pop(number, None)
            raise Disconnected("the connection broke")
        return number, frames

    async def _open(self) -> None:
        try:
            with ExitStack() as stack:
                connector = None
                if self._is_unix:
                    connector = aiohttp.UnixConnector(stack.enter_context(_short_path(self._path)))
                self._http = aiohttp.ClientSession(connector=connector)
                claim = KeyClaim.new(key_of(self._token))
                socket = await self._http.ws_connect(
                    f"{self._address}/v1/connect",
                    protocols=claim.protocols if self._token else (),
                    heartbeat=_HEARTBEAT_INTERVAL_S,
                    max_msg_size=_FRAME_LIMIT_BYTES,
                )
            if self._token:
                await self._prove(socket, claim)
        except aiohttp.WSServerHandshakeError as exc:
            words = {401: "a token is needed", 403: "this server may not be asked so"}
            if exc.status in words:
                raise CallFailed({"code": "denied", "message": words[exc.status]}) from exc
            raise Disconnected(f"{self._address} does not answer") from exc
        except KeyMismatch as exc:
            message = f"another program answers at {self._address}: it does not know this token"
            raise Disconnected(message) from exc
        except (aiohttp.ClientError, OSError, TypeError, ValueError) as exc:
            raise Disconnected(f"{self._address} does not answer") from exc
        self._socket = socket
        self._reading = asyncio.create_task(self._read(socket), name="kore client")

    async def _prove(self, socket: aiohttp.ClientWebSocketResponse, claim: KeyClaim) -> None:
        """Raise `CallFailed` for an invalid token, `KeyMismatch` for another server."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(socket.close)
            async with asyncio.timeout(_PROOF_TIMEOUT_S):
                opening = await socket.receive_json()
            if "error" in opening:
                raise CallFailed(opening["error"])
            host = URL(self._address).host_port_subcomponent or ""
            await socket.send_json(answer(key_of(self._token), host, claim, opening))
            stack.pop_all()

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        try:
            async for message in socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    frame = json.loads(message.data)
                    if (frames := self._frames.get(frame.get("id"))) is not None:
                        frames.put_nowait(frame)
        finally:
            for frames in self._frames.values():
                frames.put_nowait(None)
            self._frames.clear()

    async def _write(self, frame: Mapping[str, Any]) -> None:
        try:
            if self._socket is not None:
                await self._socket.send_str(json.dumps(frame))
        except (ConnectionError, aiohttp.ClientError) as exc:
            raise Disconnected("the connection broke") from exc

    async def _close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        if self._socket is not None:
            await self._socket.close()
        if self._http is not None:
            await self._http.close()
        self._http = self._socket = self._reading = None


class _Tries:
    """Retries with growing waits, for a limited total time."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.succeed()

    def succeed(self) -> None:
        self._wait_s, self._until = _FIRST_WAIT_S, None

    _until: float | None

    async def wait_after(self, exc: Disconnected | CallFailed) -> None:
        """Wait before the next attempt; raise the error if it is permanent or time is up."""
        now = asyncio.get_running_loop().time()
        self._until = self._until or now + self._patience_s
        is_passing = isinstance(exc, Disconnected) or exc.code in _PASSING
        if not is_passing or now > self._until:
            raise exc
        await asyncio.sleep(self._wait_s)
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)


def _is_loopback(address: str) -> bool:
    host = URL(address).host or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def _short_path(path: str) -> Iterator[str]:
    """Yield a path of a Unix socket that fits into an address (100 bytes)."""
    if len(os.fsencode(path)) <= _PATH_LIMIT_BYTES:
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


async def _next(frames: "asyncio.Queue[Event | None]") -> Event:
    """Return the next frame; raise `Disconnected` at the end, `CallFailed` for an error."""
    frame = await frames.get()
    if frame is None:
        raise Disconnected("the connection broke")
    if "error" in frame:
        raise CallFailed(frame["error"])
    return frame
