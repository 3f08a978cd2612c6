"""Server sockets: a loopback port, a Unix socket, or any address with TLS.

A loopback address cannot be reached from other machines; any other address needs TLS 1.3. Tokens
are required in both cases.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen
from gateway.config.sections import ServerSection
from gateway.control.request_logger import RequestLogger
from gateway.control.service import Service
from gateway.control.unix_listener import UnixListener
from gateway.core.tasks import task_scope
from gateway.runtime.local_access import ServerAccess
from gateway.server.acceptor import ConnectionAcceptor
from gateway.server.application import build_application
from gateway.server.connection_ranks import ConnectionRanks
from gateway.server.host_names import HostNames, is_loopback, with_port
from gateway.server.timeouts import ServerTimeouts
from gateway.server.tokens import TokenFile

log = logging.getLogger(__name__)

DEFAULT_PORT = 8790
# A connection is closed after this time without a complete request.
_STOP_TIMEOUT_S = 2.0
_BACKLOG = 256
DEFAULT_CONNECTIONS = 500


@frozen
class ListenAddress:
    """Listen address: the `path` of a Unix socket, or `host` and `port` (0: any free port)."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: Path | None = None

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """Parse `HOST:PORT`, `unix:PATH`, or `auto` for a free loopback port.

        Raises `ConfigError` for anything else.
        """
        if text == "auto":
            return cls(port=0)
        if text.startswith("unix:"):
            path = Path(text.removeprefix("unix:")).expanduser()
            if path.is_absolute():
                return cls(path=path)
        host, colon, port = text.rpartition(":")
        if colon and port.isdecimal() and int(port) <= 65_535 and host:
            return cls(host.strip("[]"), int(port))
        raise ConfigError(
            t(
                "found the address {text!r}, expected 127.0.0.1:PORT, unix:/PATH or auto",
                text=text,
            )
        )

    @property
    def is_loopback(self) -> bool:
        return self.path is not None or is_loopback(self.host)


@frozen
class TlsFiles:
    """Certificate files; `client_ca` signs the certificates required of clients (mutual TLS)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context. Raises `ConfigError` for unusable files."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self.client_ca)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise ConfigError(
                t(
                    "the TLS certificate {file} cannot be used: {reason}",
                    file=self.certificate,
                    reason=reason,
                )
            ) from None
        return context


@frozen
class ServerOptions:
    """Options of the server.

    `hosts` are additional names by which the server is reached. `insecure` allows an address that
    others can reach without TLS. At most `max_connections` are open at a time.
    """

    address: ListenAddress = ListenAddress()
    tls: TlsFiles | None = None
    hosts: Collection[str] = ()
    insecure: bool = False
    max_connections: int = DEFAULT_CONNECTIONS
    timeouts: ServerTimeouts = ServerTimeouts()

    def check(self) -> None:
        """Raise `ConfigError` for an unsafe address."""
        if self.address.is_loopback or self.tls is not None or self.insecure:
            return
        raise ConfigError(
            t("others can reach {host}: that needs TLS", host=self.address.host),
            hint=t("add --tls-cert and --tls-key, or --insecure behind a proxy that has it"),
        )


def options_of(server: ServerSection) -> ServerOptions:
    """Return the options from the configuration. Raises `ConfigError`."""
    tls = None
    if server.tls_cert is not None and server.tls_key is not None:
        client_ca = Path(server.client_ca).expanduser() if server.client_ca else None
        certificate, key = Path(server.tls_cert), Path(server.tls_key)
        tls = TlsFiles(certificate.expanduser(), key.expanduser(), client_ca)
    elif server.tls_cert is not None or server.tls_key is not None or server.client_ca:
        raise ConfigError(t("server: TLS needs both tls_cert and tls_key"))
    address = ListenAddress.parse(server.listen) if server.listen else ListenAddress()
    return ServerOptions(address, tls, server.hosts, server.insecure, server.max_connections)


@asynccontextmanager
async def serve(
    service: Service, tokens: TokenFile, options: ServerOptions, local: Path | None = None
) -> AsyncIterator[ServerAccess]:
    """Run the server while the context is open, and yield its addresses.

    Programs of this user reach it at the Unix socket `local`, which replaces the socket of another
    server. Raises `ConfigError` if the address is unavailable.
    """
    options.check()
    address = options.address
    ranks = ConnectionRanks(options.max_connections)
    hosts = HostNames(address.host, options.hosts)
    app = build_application(service, tokens, hosts, ranks, options.timeouts)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=RequestLogger(log),
        handle_signals=False,
        shutdown_timeout=_STOP_TIMEOUT_S,
        keepalive_timeout=options.timeouts.idle_s,
    )
    await runner.setup()
    try:
        if address.path is not None:
            with _unix_socket(address.path) as listener:
                async with _accepting(runner, [listener], options, ranks):
                    yield ServerAccess(f"unix:{address.path}")
            return
        context = options.tls.context() if options.tls else None
        sockets = await _listen(address)
        host, port = sockets[0].getsockname()[:2]
        if context is not None:
            # The certificate names the host, not its address.
            host = address.host
        place = with_port(host, port)
        if not address.is_loopback and context is None:
            log.warning("the server at %s is reachable by others without TLS", place)
        url = f"{'https' if context else 'http'}://{place}"
        with ExitStack() as stack:
            if local is not None:
                sockets.append(stack.enter_context(_unix_socket(local, replace=True)))
            async with _accepting(runner, sockets, options, ranks, context):
                yield ServerAccess(url if local is None else f"unix:{local}", url)
    finally:
        await runner.cleanup()


@contextmanager
def _unix_socket(path: Path, *, replace: bool = False) -> Iterator[socket.socket]:
    if replace:
        path.unlink(missing_ok=True)
    listener = UnixListener(path)
    try:
        listener.socket.listen(_BACKLOG)
        yield listener.socket
    finally:
        listener.remove()


@asynccontextmanager
async def _accepting(
    runner: web.AppRunner,
    sockets: Sequence[socket.socket],
    options: ServerOptions,
    ranks: ConnectionRanks,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[None]:
    """Serve connections to these sockets with the application, and close the sockets at the end."""
    server = runner.server
    assert server is not None
    acceptor = ConnectionAcceptor(
        server, ranks, options.max_connections, tls, options.timeouts.handshake_s
    )
    try:
        async with task_scope() as start:
            start(acceptor.accept(sockets))
            yield
    finally:
        for item in sockets:
            item.close()


async def _listen(address: ListenAddress) -> list[socket.socket]:
    """Return a listening socket for each address of the host. Raises `ConfigError`."""
    sockets: list[socket.socket] = []
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, place in dict.fromkeys(infos):
            # With port 0, every address of the host gets the port of the first one.
            place = (place[0], sockets[0].getsockname()[1], *place[2:]) if sockets else place
            sockets.append(_listening_socket(family, kind, protocol, place))
    except OSError as exc:
        for item in sockets:
            item.close()
        # The errno of a resolver error is not an operating system error number.
        number = None if isinstance(exc, socket.gaierror) else exc.errno
        raise ConfigError(
            t(
                "{host}:{port} cannot be used: {reason}",
                host=address.host,
                port=address.port,
                reason=os.strerror(number) if number else exc,
            ),
            hint=t("choose another port: --listen-addr 127.0.0.1:PORT, or auto"),
        ) from None
    return sockets


def _listening_socket(family: int, kind: int, protocol: int, place: Any) -> socket.socket:
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
