"""Client for the `Service` of another Kore over one WebSocket (frames: `websocket.py`)."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import aiohttp
from yarl import URL

from agent.errors import ConfigError, KoreError
from agent.i18n import current_locale, t
from agent.records import frozen
from agent.security.key_proof import KeyClaim, KeyMismatch, answer, key_of
from agent.serialization import dumps
from gateway.control.calls import Call, find_call
from gateway.control.protocol import (
    LINE_LIMIT_BYTES,
    PROTOCOL,
    decode_object,
    error_from_json,
)
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.runtime.paths import socket_address
from gateway.server.host_names import is_loopback

_CONNECT_TIMEOUT_S = 10.0
_HEARTBEAT_INTERVAL_S = 15.0
# Number of items per acknowledgement, well below the server's window.
_ACK_AFTER = 64


@frozen
class ClientTls:
    """TLS files: the `ca` of the server's certificate, and a client certificate with its key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context. Raises `ConfigError` for unusable files."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except OSError as exc:
            raise ConfigError(
                t("the TLS files cannot be used: {reason}", reason=exc.strerror or exc)
            ) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context


@asynccontextmanager
async def opened_service(
    address: str, token: str, tls: ClientTls | None = None
) -> AsyncIterator[Service]:
    """Yield the service at `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`.

    Raises `ConnectionLost` if it does not answer, `KoreError` for a rejected token or another
    version.
    """
    async with AsyncExitStack() as stack:
        connector: aiohttp.BaseConnector
        if address.startswith("unix:"):
            path = stack.enter_context(_reachable(address))
            connector, address, token = aiohttp.UnixConnector(path), "http://localhost", ""
        else:
            check_client_address(address)
            context = (tls or ClientTls()).context() if address.startswith("https:") else None
            connector = aiohttp.TCPConnector(ssl=context if context is not None else True)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=connector, headers={"Accept-Language": current_locale()}
            )
        )
        socket = await _connected(session, address.rstrip("/"), token)
        remote = RemoteService(socket)
        reading = asyncio.create_task(remote.read(), name="frames of the server")
        try:
            yield cast("Service", remote)
        finally:
            reading.cancel()
            await asyncio.wait({reading})
            await socket.close()


@contextmanager
def _reachable(address: str) -> Iterator[str]:
    """Yield the path of `unix:/PATH`, shortened to the maximum length of a socket address."""
    try:
        with socket_address(Path(address.removeprefix("unix:"))) as path:
            yield path
    except FileNotFoundError as exc:
        raise ConnectionLost(t("{address} does not answer", address=address)) from exc


def check_client_address(address: str) -> None:
    """Raise `ConfigError` for an address where others could read the traffic."""
    url = URL(address)
    if url.scheme == "https" or (url.scheme == "http" and is_loopback(url.host or "")):
        return
    raise ConfigError(
        t("{address} is on another machine: that needs https", address=address),
        hint=t("use https://, or a tunnel: ssh -L 8790:127.0.0.1:8790 HOST"),
    )


async def _connected(
    session: aiohttp.ClientSession, address: str, token: str
) -> aiohttp.ClientWebSocketResponse:
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            async with session.get(f"{address}/v1/hello") as response:
                hello = await response.json() if response.status == 200 else {}
            if hello.get("protocol") != PROTOCOL:
                raise KoreError(
                    t("the Kore at {address} is a different version", address=address),
                    hint=t("update the older one of the two"),
                )
            key, claim = key_of(token), KeyClaim.new(key_of(token))
            url = f"{address}/v1/connect"
            socket = await session.ws_connect(
                url,
                protocols=claim.protocols if token else (),
                heartbeat=_HEARTBEAT_INTERVAL_S,
                max_msg_size=LINE_LIMIT_BYTES,
            )
            if token:
                await _prove(socket, url, key, claim)
            return socket
    except KeyMismatch as exc:
        raise ConnectionLost(
            t("another program answers at {address}: it does not know this token", address=address)
        ) from exc
    except aiohttp.ClientConnectorCertificateError as exc:
        raise KoreError(
            t("the certificate of {address} is not trusted", address=address),
            hint=t("name its CA with --ca FILE"),
        ) from exc
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, TypeError) as exc:
        raise ConnectionLost(t("{address} does not answer", address=address)) from exc


async def _prove(
    socket: aiohttp.ClientWebSocketResponse, url: str, key: bytes, claim: KeyClaim
) -> None:
    """Prove the key. Raises `KoreError` for a rejected token, `KeyMismatch` for another server."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(socket.close)
        opening = decode_object((await socket.receive_str()).encode())
        if "error" in opening:
            raise error_from_json(opening["error"])
        host = URL(url).host_port_subcomponent or ""
        await socket.send_str(dumps(answer(key, host, claim, opening)))
        stack.pop_all()


class RemoteService:
    """Client with a method for each call in the table of calls."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._frames: dict[int, asyncio.Queue[Mapping[str, Any] | None]] = {}
        self._is_lost = False

    def __getattr__(self, name: str) -> Any:
        """Return the method for a call in the table of calls."""
        call = find_call(name)
        if call is None:
            raise AttributeError(name)
        return partial(self._watch if call.shape == "stream" else self._call, call)

    async def read(self) -> None:
        """Distribute incoming frames until the connection ends."""
        try:
            async for message in self._socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    frame = decode_object(message.data)
                    if (frames := self._frames.get(frame.get("id", 0))) is not None:
                        frames.put_nowait(frame)
        finally:
            self._is_lost = True
            for frames in self._frames.values():
                frames.put_nowait(None)

    async def _call(self, call: Call, *args: Any, **kwargs: Any) -> Any:
        async with self._opened(call, *args, **kwargs) as (_, frames):
            value = (await _next_frame(frames))["value"]
        if call.shape == "list":
            return [call.decode_result(item) for item in value]
        return call.decode_result(value)

    @asynccontextmanager
    async def _watch(
        self, call: Call, *args: Any, **kwargs: Any
    ) -> AsyncIterator[AsyncIterator[Any]]:
        async with self._opened(call, *args, **kwargs) as (number, frames):
            await _next_frame(frames)  # "ready": from now on, no event is missed
            try:
                yield self._items(call, number, frames)
            finally:
                await self._send({"id": number, "cancel": True})

    async def _items(
        self, call: Call, number: int, frames: "asyncio.Queue[Mapping[str, Any] | None]"
    ) -> AsyncIterator[Any]:
        unacknowledged = 0
        while "item" in (frame := await _next_frame(frames)):
            unacknowledged += 1
            if unacknowledged == _ACK_AFTER:
                await self._send({"id": number, "ack": unacknowledged})
                unacknowledged = 0
            try:
                item = call.decode_result(frame["item"])
            except KoreError:
                continue  # an event that only a newer Kore knows
            yield item

    @asynccontextmanager
    async def _opened(
        self, call: Call, *args: Any, **kwargs: Any
    ) -> "AsyncIterator[tuple[int, asyncio.Queue[Mapping[str, Any] | None]]]":
        number = next(self._numbers)
        frames = self._frames[number] = asyncio.Queue()
        try:
            if self._is_lost:
                raise ConnectionLost(t("the connection to Kore is lost"))
            arguments = call.encode_arguments(args, kwargs)
            await self._send({"id": number, "call": call.name, "arguments": arguments})
            yield number, frames
        finally:
            del self._frames[number]

    async def _send(self, frame: Mapping[str, Any]) -> None:
        try:
            if not self._socket.closed:
                await self._socket.send_str(dumps(frame))
        except (ConnectionError, aiohttp.ClientError) as exc:
            raise ConnectionLost(t("the connection to Kore is lost")) from exc


async def _next_frame(frames: "asyncio.Queue[Mapping[str, Any] | None]") -> Mapping[str, Any]:
    """Return the next frame.

    Raises `ConnectionLost` at the end of the connection, and errors that the other side reports.
    """
    frame = await frames.get()
    if frame is None:
        raise ConnectionLost(t("the connection to Kore is lost"))
    if "error" in frame:
        raise error_from_json(frame["error"])
    return frame
