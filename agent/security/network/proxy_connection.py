"""One connection to Kore's proxy: authentication, permission, and data in both directions.

A name is resolved here, once; the connection goes to the address that was checked, which is public.
The decision is recorded before the connection is made.
"""

import asyncio
import hmac
import logging
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from agent.errors import KoreError, ToolError
from agent.records import frozen
from agent.security.network.proxy_request import (
    ProxyRefusal,
    ProxyRequest,
    brings_password,
    read_head,
)
from agent.security.network.urls import Allow, is_public, resolve_public
from agent.security.policy.roles import in_hosts

log = logging.getLogger(__name__)

PORTS = (80, 443)
_ADDRESSES = 4
_CHUNK_BYTES = 65_536
_PASSED_ON = b"HTTP/1.1 200 Connection established\r\n\r\n"


@frozen
class ProxyLimits:
    """Limits of one command's use of a proxy.

    Concurrent connections, all connections, refused connections, bytes in both directions, bytes of
    a head, and seconds for a head, for connecting, and of silence.
    """

    max_concurrent: int = 64
    max_connections: int = 10_000
    max_refusals: int = 100
    max_bytes: int = 4_000_000_000
    head_bytes: int = 16_384
    head_s: float = 10
    connect_s: float = 15
    idle_s: float = 60
    linger_s: float = 1


@frozen
class EgressGrant:
    """The hosts (`*.example.org` for all below one) and ports to reach; `allow` is for tests."""

    hosts: tuple[str, ...]
    ports: tuple[int, ...] = PORTS
    allow: Allow = is_public
    limits: ProxyLimits = field(default_factory=ProxyLimits)


# "host:port", whether it will be reached, and the reason. A `KoreError` prevents the connection.
Record = Callable[[str, bool, str], Awaitable[None]]


@dataclass(slots=True)
class ProxySession:
    """A command's use of its grant; hosts are written "host:port"."""

    grant: EgressGrant
    record: Record
    reached_hosts: set[str] = field(default_factory=set)
    reason_by_refused_host: dict[str, str] = field(default_factory=dict)
    refusal_count: int = 0
    bytes: int = 0


class ProxyConnection:
    """A connection between a program and its target host."""

    def __init__(self, usage: ProxySession, reader: StreamReader, writer: StreamWriter) -> None:
        self._usage = usage
        self._grant = usage.grant
        self._bounds = usage.grant.limits
        self._reader = reader
        self._writer = writer
        self._active_at = 0.0

    async def serve(self, token: bytes, password: str = "") -> None:
        """Serve until one side closes the connection or a limit is reached.

        The connection must begin with `token`, and the request must contain `password`.
        """
        if self._usage.refusal_count >= self._bounds.max_refusals:
            return
        where = "?"
        try:
            request = await self._read_request(token, password)
            if request is None:
                await self._say(407, "this is the way out of another command")
                return
            where = str(request)
            addresses = await self._check_target(request)
            await self._record(where)
            async with self._open_target(request, addresses) as (reader, writer):
                await self._pass_on(request, reader, writer)
        except ProxyRefusal as exc:
            await self._refuse(where, exc)
        except (OSError, asyncio.IncompleteReadError):
            return  # its program or its peer has gone, or was silent

    async def _read_request(self, token: bytes, password: str) -> ProxyRequest | None:
        """Return the request; None without the password, as a program may ask without it first."""
        try:
            async with asyncio.timeout(self._bounds.head_s):
                received_token = await self._reader.readexactly(len(token))
                if not hmac.compare_digest(received_token, token):
                    raise ProxyRefusal(403, "it came without the token of the command")
                head = await self._reader.readuntil(b"\r\n\r\n")
                if password and not brings_password(head, password):
                    return None
                return read_head(head)
        except asyncio.LimitOverrunError as exc:
            raise ProxyRefusal(431, "the head of the request is too long") from exc
        except TimeoutError as exc:
            raise ProxyRefusal(408, "the head of the request did not come in time") from exc

    async def _check_target(self, request: ProxyRequest) -> tuple[str, ...]:
        """Return the addresses to connect to. Raises `ProxyRefusal`."""
        if not in_hosts(request.host, self._grant.hosts):
            hosts = ", ".join(self._grant.hosts)
            raise ProxyRefusal(
                403, f"{request.host} is none of the hosts that commands may reach: {hosts}"
            )
        if request.port not in self._grant.ports:
            ports = ", ".join(map(str, self._grant.ports))
            raise ProxyRefusal(403, f"port {request.port} is none of {ports}")
        try:
            async with asyncio.timeout(self._bounds.connect_s):
                return (await resolve_public(f"http://{request}/", self._grant.allow)).addresses
        except TimeoutError as exc:
            raise ProxyRefusal(504, f"{request.host} was not found in time") from exc
        except ToolError as exc:
            raise ProxyRefusal(403, str(exc)) from exc

    async def _record(self, where: str) -> None:
        try:
            await self._usage.record(where, True, f"{where} is one of the hosts (exec-hosts)")
        except KoreError as exc:
            raise ProxyRefusal(503, "the connection could not be recorded") from exc
        self._usage.reached_hosts.add(where)

    @asynccontextmanager
    async def _open_target(
        self, request: ProxyRequest, addresses: tuple[str, ...]
    ) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
        reader, writer = await self._connect(request, addresses)
        writer.transport.set_write_buffer_limits(0)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def _connect(
        self, request: ProxyRequest, addresses: tuple[str, ...]
    ) -> tuple[StreamReader, StreamWriter]:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.connect_s):
                for address in addresses[:_ADDRESSES]:
                    with suppress(OSError):
                        return await asyncio.open_connection(
                            address, request.port, limit=_CHUNK_BYTES
                        )
        await self._say(502, f"{request} does not answer")
        raise ConnectionError

    async def _pass_on(
        self, request: ProxyRequest, reader: StreamReader, writer: StreamWriter
    ) -> None:
        self._note_activity()
        if request.head is None:
            await self._send(self._writer, _PASSED_ON)
        else:
            await self._send(writer, request.head)
        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._copy(self._reader, writer, request))
                await self._copy(reader, self._writer)
                # After the host has closed the connection, the program closes it too. Unread data
                # of the program would discard the host's last data.
                async with asyncio.timeout(self._bounds.linger_s):
                    await sending
        except* OSError:
            pass  # one side has gone

    async def _copy(
        self, reader: StreamReader, writer: StreamWriter, request: ProxyRequest | None = None
    ) -> None:
        """Copy until the end; of a plain request, copy its announced length."""
        remaining_bytes = None if request is None or request.head is None else request.length
        while remaining_bytes != 0:
            data = await self._receive(
                reader, _CHUNK_BYTES if remaining_bytes is None else remaining_bytes
            )
            if not data:
                break
            remaining_bytes = None if remaining_bytes is None else remaining_bytes - len(data)
            self._usage.bytes += len(data)
            if self._usage.bytes > self._bounds.max_bytes:
                log.warning("a command reached its network traffic limit")
                raise ConnectionError
            await self._send(writer, data)
        if remaining_bytes is None and writer.can_write_eof():
            writer.write_eof()

    async def _receive(self, reader: StreamReader, limit: int) -> bytes:
        while True:
            try:
                async with asyncio.timeout(self._bounds.idle_s):
                    data = await reader.read(min(limit, _CHUNK_BYTES))
            except TimeoutError:
                # The other direction may be a long download.
                if asyncio.get_running_loop().time() - self._active_at >= self._bounds.idle_s:
                    raise
                continue
            self._note_activity()
            return data

    def _note_activity(self) -> None:
        self._active_at = asyncio.get_running_loop().time()

    async def _send(self, writer: StreamWriter, data: bytes) -> None:
        writer.write(data)
        async with asyncio.timeout(self._bounds.idle_s):
            await writer.drain()

    async def _refuse(self, where: str, refusal: ProxyRefusal) -> None:
        usage = self._usage
        usage.refusal_count += 1
        usage.reason_by_refused_host[where] = str(refusal)
        last = usage.refusal_count == self._bounds.max_refusals
        more = "; after this many refusals nothing more is looked at" if last else ""
        try:
            await usage.record(where, False, f"{refusal} (exec-hosts){more}")
        except KoreError as exc:
            log.error("%s was refused, and the audit log could not be written: %s", where, exc)
        with suppress(OSError):
            await self._say(refusal.status, str(refusal))

    async def _say(self, status: int, reason: str) -> None:
        """Send a status with the reason in the first line, because many programs show only that."""
        body = f"Kore: {reason}\n".encode()
        head = f"HTTP/1.1 {status} {reason[:300]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        if status == 407:
            head += 'Proxy-Authenticate: Basic realm="kore"\r\n'
        end = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        await self._send(self._writer, (head + end).encode() + body)
        self._writer.write_eof()
        # If the socket were closed with unread data, the answer would be lost in transit.
        async with asyncio.timeout(self._bounds.linger_s):
            while await self._reader.read(_CHUNK_BYTES):
                pass
