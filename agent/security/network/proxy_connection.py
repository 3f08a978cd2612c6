"""Connection to Kore's proxy: authentication, permission, and data in both directions.

A name is resolved here, once; the connection goes to the address that was checked, which is public
unless it belongs to a target. The decision is recorded before the connection is made.
"""

import asyncio
import base64
import hmac
import logging
import re
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agent.errors import KoreError, ToolError
from agent.records import frozen
from agent.security.local_services import LocalService, OwnServices, is_of_this_machine
from agent.security.network.service_connection import Streams, open_service, relay, reset
from agent.security.network.targets import NetworkTarget, address_of, is_special
from agent.security.network.urls import Allow, host_name, is_public, resolve_public
from agent.security.policy.roles import in_hosts
from agent.security.sandbox.landlock.connect_broker import PASSED_ON

log = logging.getLogger(__name__)

# RFC 9112: anything ambiguous (a bare line end, a folded line, two lengths, an encoded body) is
# rejected, so that a server behind the proxy cannot see a different request.
HEADERS_LIMIT = 100
_METHOD = re.compile(rb"[A-Z]{1,20}")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_LENGTH = re.compile(rb"\d{1,15}")
# Hop-by-hop headers (RFC 9110, 7.6.1), and headers that Kore writes itself.
_DROPPED = frozenset(
    {b"connection", b"host", b"keep-alive", b"te", b"trailer", b"upgrade", b"http2-settings"}
    | {b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"}
)
_METHODS = frozenset({b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"PATCH", b"POST", b"PUT"})


class ProxyRefusal(Exception):
    """Error for a rejected request; `status` is the HTTP status of the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _UnreachableError(ConnectionError):
    """Error for an allowed address at which nothing answers."""


@frozen
class ProxyRequest:
    """Request of a program: a tunnel if `head` is None, otherwise a head and `length` bytes.

    `host` is a name in its normal form or an address.
    """

    host: str
    port: int
    head: bytes | None = None
    length: int = 0

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_head(data: bytes) -> ProxyRequest:
    """Parse the head, including its empty line. Raises `ProxyRefusal`."""
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    parts = first.split(b" ")
    if len(parts) != 3 or parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise ProxyRefusal(400, "this is not an HTTP/1 request")
    method, target, _ = parts
    fields = _fields(lines)
    if not _METHOD.fullmatch(method) or not _TARGET.fullmatch(target):
        raise ProxyRefusal(400, "this is not an HTTP/1 request")
    if method == b"CONNECT":
        return _authority(target.decode(), None)
    if method not in _METHODS:
        raise ProxyRefusal(405, "this method is not supported")
    return _plain(method, target.decode(), fields)


def brings_password(data: bytes, password: str) -> bool:
    """Return whether a head contains this password of the user "kore" (RFC 7617)."""
    expected = b"Basic " + base64.b64encode(f"kore:{password}".encode())
    for line in data.split(b"\r\n")[1 : HEADERS_LIMIT + 1]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"proxy-authorization":
            return hmac.compare_digest(value.strip(), expected)
    return False


def _plain(method: bytes, target: str, fields: list[tuple[bytes, bytes]]) -> ProxyRequest:
    try:
        url = urlsplit(target)
    except ValueError as exc:
        raise ProxyRefusal(400, "the address cannot be read") from exc
    if url.scheme != "http" or not url.netloc or not target.startswith("http://"):
        raise ProxyRefusal(400, "only http:// addresses, and CONNECT for all others")
    target_host = _authority(url.netloc, 80)
    lengths = [value for name, value in fields if name == b"content-length"]
    if any(name == b"transfer-encoding" for name, _ in fields):
        raise ProxyRefusal(411, "a body needs a Content-Length here")
    if len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
        raise ProxyRefusal(400, "the length of the body is not clear")
    path = target.removeprefix("http://")[len(url.netloc) :].partition("#")[0]
    path = path if path.startswith("/") else f"/{path}"
    host = str(target_host).removesuffix(":80")
    hop_headers = {
        header.strip().lower()
        for name, value in fields
        if name == b"connection"
        for header in value.split(b",")
    }
    forwarded = [
        b"%s: %s" % field
        for field in fields
        if field[0] not in _DROPPED
        and (field[0] == b"content-length" or field[0] not in hop_headers)
    ]
    head = [b"%s %s HTTP/1.1" % (method, path.encode()), b"host: " + host.encode(), *forwarded]
    text = b"\r\n".join([*head, b"connection: close", b"", b""])
    return ProxyRequest(target_host.host, target_host.port, text, int(lengths[0]) if lengths else 0)


def _fields(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    if len(lines) > HEADERS_LIMIT:
        raise ProxyRefusal(431, "there are too many headers")
    headers = []
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise ProxyRefusal(400, "a header cannot be read")
        headers.append((field[1].lower(), field[2].strip(b" \t")))
    return headers


def _authority(text: str, default: int | None) -> ProxyRequest:
    """Parse `host` or `host:port`; nothing else."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::(\d{1,5}))?", text)
    port = int(match[2]) if match and match[2] else default
    if match is None or port is None or not 0 < port < 65_536:
        raise ProxyRefusal(400, "the address must be HOST:PORT, without a user name")
    try:
        return ProxyRequest(host_name(match[1]), port)
    except (ValueError, UnicodeError) as exc:
        raise ProxyRefusal(400, "the address contains no host name") from exc


def _is_elsewhere(text: str) -> bool:
    """Return whether an address is one of an ordinary other machine. May block."""
    address = address_of(text)
    return address is not None and not is_special(address) and not is_of_this_machine(text)


PORTS = (80, 443)
_ADDRESSES = 4
_CHUNK_BYTES = 65_536
# Hosts that are kept in memory for a command.
_MAX_NAMED = 1_000


@frozen
class ProxyLimits:
    """Limits of one command's use of a proxy.

    Concurrent, total and refused connections, bytes in both directions, bytes of a head, and
    seconds for a head, for connecting and without data. Total connections are counted for each
    listener.
    """

    max_concurrent: int = 128
    max_connections: int = 10_000
    max_refusals: int = 100
    max_bytes: int = 4_000_000_000
    head_bytes: int = 16_384
    head_s: float = 10
    connect_s: float = 15
    idle_s: float = 60
    linger_s: float = 1


# Return the addresses of a name. Raises `OSError`.
Resolve = Callable[[str, int], Awaitable[tuple[str, ...]]]


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """Look up the addresses of a host. Raises `OSError`."""
    loop = asyncio.get_running_loop()
    records = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(record[4][0]) for record in records))


@frozen
class EgressGrant:
    """Hosts (`*.example.org` for subdomains) and ports to reach.

    `allow`, and `resolve` for the names of targets, are for tests. `rule` is the rule or setting
    that records name.
    `services` are the local services and `targets` the hosts and addresses with a port to reach,
    none of which may be one of Kore's `own`.
    """

    hosts: tuple[str, ...]
    ports: tuple[int, ...] = PORTS
    allow: Allow = is_public
    limits: ProxyLimits = field(default_factory=ProxyLimits)
    services: tuple[LocalService, ...] = ()
    own: OwnServices = field(default_factory=OwnServices)
    targets: tuple[NetworkTarget, ...] = ()
    resolve: Resolve = resolve
    rule: str = "exec-hosts"

    def is_target(self, host: str, port: int) -> bool:
        """Return whether a name or an address belongs to a target."""
        return any(target.covers(host, port) for target in self.targets)

    def socket_at(self, path: Path) -> LocalService | None:
        """Return the service whose Unix socket has this path, or None."""
        return next((service for service in self.services if service.path == path), None)


# "host:port", whether the connection is allowed, and the reason. A `KoreError` prevents the
# connection.
Record = Callable[[str, bool, str], Awaitable[None]]


def ignore_failure(where: str, reason: str) -> None:
    """Do nothing."""


@dataclass(slots=True)
class ProxySession:
    """A command's use of its grant; hosts are written "host:port"."""

    grant: EgressGrant
    record: Record
    reached_hosts: set[str] = field(default_factory=set)
    reason_by_refused_host: dict[str, str] = field(default_factory=dict)
    refusal_count: int = 0
    bytes: int = 0
    report_failure: Callable[[str, str], None] = ignore_failure
    has_excess: bool = False

    def note_excess(self, where: str) -> None:
        """Note that a connection is reset because too many are open."""
        reason = f"the limit of {self.grant.limits.max_concurrent} open connections is reached"
        if not self.has_excess:
            log.warning("connections of a command are reset: %s", reason)
        self.has_excess = True
        self.note_failure(where, reason)

    def note_failure(self, where: str, reason: str) -> None:
        """Note that nothing answers at an allowed address."""
        self._keep_reason(where, reason)
        self.report_failure(where, reason)

    def _keep_reason(self, where: str, reason: str) -> None:
        # A server may run for weeks.
        if len(self.reason_by_refused_host) < _MAX_NAMED:
            self.reason_by_refused_host[where] = reason

    async def record_host(self, where: str, reason: str) -> None:
        """Record a connection. Raises `ProxyRefusal` if it cannot be recorded."""
        try:
            await self.record(where, True, reason)
        except KoreError as exc:
            raise ProxyRefusal(503, "the connection could not be recorded") from exc
        if len(self.reached_hosts) < _MAX_NAMED:
            self.reached_hosts.add(where)

    async def record_refusal(self, where: str, refusal: ProxyRefusal) -> None:
        self.refusal_count += 1
        self._keep_reason(where, str(refusal))
        last = self.refusal_count == self.grant.limits.max_refusals
        more = "; further requests are ignored" if last else ""
        try:
            await self.record(where, False, f"{refusal} ({self.grant.rule}){more}")
        except KoreError as exc:
            log.error("%s was refused, and the audit log could not be written: %s", where, exc)

    async def check_service(self, service: LocalService) -> None:
        """Raise `ProxyRefusal` for a service of Kore."""
        objection = await asyncio.to_thread(self.grant.own.objection, service)
        if objection is not None:
            raise ProxyRefusal(403, objection)

    async def record_service(self, service: LocalService) -> None:
        """Record a connection. Raises `ProxyRefusal` if it cannot be recorded."""
        where = str(service)
        await self.record_host(where, f"{where} is one of the services (exec-local)")
        # A program may have waited for the start of the service.
        self.reason_by_refused_host.pop(where, None)


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
                await self._say(407, "this proxy belongs to another command")
                return
            where = str(request)
            if (service := self._find_service(request)) is not None:
                await self._pass_to_service(request, service)
                return
            addresses = await self._check_target(request)
            await self._usage.record_host(
                where, f"{where} is one of the hosts ({self._grant.rule})"
            )
            async with self._open_target(request, addresses) as streams:
                if request.head is None and self._grant.is_target(request.host, request.port):
                    await self._send(self._writer, PASSED_ON)
                    await relay((self._reader, self._writer), streams)
                else:
                    await self._pass_on(request, *streams)
        except ProxyRefusal as exc:
            await self._refuse(where, exc)
        except _UnreachableError as exc:
            self._usage.note_failure(where, str(exc))
            with suppress(OSError):
                await self._say(502, f"{where} does not answer")
        except (OSError, asyncio.IncompleteReadError):
            return  # the program or its peer is gone, or was silent

    async def serve_service(self, service: LocalService) -> None:
        """Connect the program with a service until both sides close the connection."""
        try:
            async with self._open_service(service) as streams:
                await relay((self._reader, self._writer), streams)
        except ProxyRefusal as exc:
            await self._usage.record_refusal(str(service), exc)
            reset(self._writer)
        except ConnectionError as exc:
            self._usage.note_failure(str(service), str(exc))
            reset(self._writer)

    async def serve_target(self, destination: ProxyRequest) -> None:
        """Connect the program with its destination until both sides close the connection."""
        where = str(destination)
        try:
            addresses = await self._check_target(destination)
            await self._usage.record_host(
                where, f"{where} is one of the targets ({self._grant.rule})"
            )
            async with self._open_target(destination, addresses) as streams:
                await relay((self._reader, self._writer), streams)
        except ProxyRefusal as exc:
            await self._usage.record_refusal(where, exc)
            reset(self._writer)
        except _UnreachableError as exc:
            self._usage.note_failure(where, str(exc))
            reset(self._writer)

    async def _pass_to_service(self, request: ProxyRequest, service: LocalService) -> None:
        """Pass on a request to a service. Raises `ProxyRefusal`."""
        try:
            async with self._open_service(service) as streams:
                if request.head is not None:
                    await self._pass_on(request, *streams)
                    return
                await self._send(self._writer, PASSED_ON)
                await relay((self._reader, self._writer), streams)
        except ConnectionError as exc:
            self._usage.note_failure(str(service), str(exc))
            await self._say(502, str(exc))

    def _find_service(self, request: ProxyRequest) -> LocalService | None:
        with suppress(ValueError):
            service = LocalService.parse(str(request))
            return service if service in self._grant.services else None
        return None

    @asynccontextmanager
    async def _open_service(self, service: LocalService) -> AsyncIterator[Streams]:
        """Connect to a service, and record it before any data is passed on.

        Raises `ProxyRefusal` for a service of Kore or if the record fails, `ConnectionError` if
        nothing answers.
        """
        await self._usage.check_service(service)
        async with open_service(service) as streams:
            await self._usage.record_service(service)
            yield streams

    async def _read_request(self, token: bytes, password: str) -> ProxyRequest | None:
        """Return the request, or None without the password: programs may first ask without it."""
        try:
            async with asyncio.timeout(self._bounds.head_s):
                received_token = await self._reader.readexactly(len(token))
                if not hmac.compare_digest(received_token, token):
                    raise ProxyRefusal(403, "the token of the command is missing")
                head = await self._reader.readuntil(b"\r\n\r\n")
                if password and not brings_password(head, password):
                    return None
                return read_head(head)
        except asyncio.LimitOverrunError as exc:
            raise ProxyRefusal(431, "the head of the request is too long") from exc
        except TimeoutError as exc:
            raise ProxyRefusal(408, "reading the head of the request timed out") from exc

    async def _check_target(self, request: ProxyRequest) -> tuple[str, ...]:
        """Return the addresses to connect to. Raises `ProxyRefusal`."""
        if self._grant.is_target(request.host, request.port):
            return await self._target_addresses(request)
        if not in_hosts(request.host, self._grant.hosts):
            hosts = ", ".join((*self._grant.hosts, *map(str, self._grant.targets)))
            raise ProxyRefusal(
                403, f"{request.host} is not one of the hosts that commands may reach: {hosts}"
            )
        if request.port not in self._grant.ports:
            ports = ", ".join(map(str, self._grant.ports))
            raise ProxyRefusal(403, f"port {request.port} is not one of {ports}")
        try:
            async with asyncio.timeout(self._bounds.connect_s):
                return (await resolve_public(f"http://{request}/", self._grant.allow)).addresses
        except TimeoutError as exc:
            raise ProxyRefusal(504, f"{request.host} was not resolved in time") from exc
        except ToolError as exc:
            raise ProxyRefusal(403, str(exc)) from exc

    async def _target_addresses(self, request: ProxyRequest) -> tuple[str, ...]:
        """Return the addresses of a target. Raises `ProxyRefusal`.

        A name leads to other machines only: whoever controls it could choose any address.
        """
        if address_of(request.host) is not None:
            objection = await asyncio.to_thread(
                self._grant.own.objection_at, str(request), request.host, request.port
            )
            if objection is not None:
                raise ProxyRefusal(403, objection)
            return (request.host,)
        addresses = await self._resolve(request)
        allowed = await asyncio.to_thread(lambda: tuple(filter(_is_elsewhere, addresses)))
        if not allowed:
            raise ProxyRefusal(
                403,
                f"{request.host} leads to this machine or to a special address"
                f" ({', '.join(addresses)}), which must be named itself",
            )
        return allowed

    async def _resolve(self, request: ProxyRequest) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(self._bounds.connect_s):
                return await self._grant.resolve(request.host, request.port)
        except TimeoutError as exc:
            raise ProxyRefusal(504, f"{request.host} was not resolved in time") from exc
        except (OSError, UnicodeError) as exc:
            raise ProxyRefusal(403, f"{request.host} cannot be found") from exc

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
        raise _UnreachableError(f"nothing answers at {request}")

    async def _pass_on(
        self, request: ProxyRequest, reader: StreamReader, writer: StreamWriter
    ) -> None:
        self._note_activity()
        if request.head is None:
            await self._send(self._writer, PASSED_ON)
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
            pass  # one side is gone

    async def _copy(
        self, reader: StreamReader, writer: StreamWriter, request: ProxyRequest | None = None
    ) -> None:
        """Copy until the end; for a plain request, copy the announced length."""
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
        await self._usage.record_refusal(where, refusal)
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
