"""Where the server listens: a loopback port, a Unix socket, or with TLS any address.

Nobody else can reach a loopback address; for any other one, TLS 1.3 is needed, and tokens always.
"""

import ipaddress
import logging
import os
import ssl
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen
from gateway.config.sections import ServerSection
from gateway.control.service import Service
from gateway.control.unix_listener import UnixListener
from gateway.server.application import build_application
from gateway.server.guard import LOOPBACK
from gateway.server.tokens import TokenFile

log = logging.getLogger(__name__)

DEFAULT_PORT = 8790
# A connection on which no whole request has come for so long is closed.
_IDLE_S = 30.0
_STOP_S = 2.0
_BACKLOG = 256


@frozen
class ListenAddress:
    """`path` of a Unix socket, or `host` and `port` (0: any that is free)."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: Path | None = None

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """`HOST:PORT`, `unix:PATH`, or `auto` for a free loopback port. Raises `ConfigError`."""
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
        if self.path is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@frozen
class TlsFiles:
    """`client_ca` signs the certificates that clients must show (mutual TLS)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Raises `ConfigError` for files that cannot be used."""
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
    """`hosts` are further names that the server is reached by. `insecure`: an address that others
    reach may do without TLS."""

    address: ListenAddress = ListenAddress()
    tls: TlsFiles | None = None
    hosts: Collection[str] = ()
    insecure: bool = False

    def check(self) -> None:
        """Raises `ConfigError` for an address that is not safe."""
        if self.address.is_loopback or self.tls is not None or self.insecure:
            return
        raise ConfigError(
            t("others can reach {host}: that needs TLS", host=self.address.host),
            hint=t("add --tls-cert and --tls-key, or --insecure behind a proxy that has it"),
        )


def options_of(server: ServerSection) -> ServerOptions:
    """What the configuration says. Raises `ConfigError`."""
    tls = None
    if server.tls_cert is not None and server.tls_key is not None:
        client_ca = Path(server.client_ca).expanduser() if server.client_ca else None
        certificate, key = Path(server.tls_cert), Path(server.tls_key)
        tls = TlsFiles(certificate.expanduser(), key.expanduser(), client_ca)
    elif server.tls_cert is not None or server.tls_key is not None or server.client_ca:
        raise ConfigError(t("server: TLS needs both tls_cert and tls_key"))
    address = ListenAddress.parse(server.listen) if server.listen else ListenAddress()
    return ServerOptions(address, tls, server.hosts, server.insecure)


@asynccontextmanager
async def serve(service: Service, tokens: TokenFile, options: ServerOptions) -> AsyncIterator[str]:
    """Answer until the block ends; gives the address as clients write it. Raises `ConfigError` when
    the address cannot be had."""
    options.check()
    address = options.address
    hosts = {*LOOPBACK, address.host.casefold(), *(host.casefold() for host in options.hosts)}
    app = build_application(service, tokens, None if address.path else hosts)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=_STOP_S,
        keepalive_timeout=_IDLE_S,
    )
    await runner.setup()
    try:
        if address.path is not None:
            listener = UnixListener(address.path)
            await web.SockSite(runner, listener.socket, backlog=_BACKLOG).start()
            try:
                yield f"unix:{address.path}"
            finally:
                listener.remove()
            return
        context = options.tls.context() if options.tls else None
        try:
            site = web.TCPSite(
                runner, address.host, address.port, ssl_context=context, backlog=_BACKLOG
            )
            await site.start()
        except OSError as exc:
            raise ConfigError(
                t(
                    "{host}:{port} cannot be used: {reason}",
                    host=address.host,
                    port=address.port,
                    reason=os.strerror(exc.errno) if exc.errno else exc,
                ),
                hint=t("choose another port: --listen-addr 127.0.0.1:PORT, or auto"),
            ) from None
        port = runner.addresses[0][1]
        scheme = "https" if context else "http"
        host = f"[{address.host}]" if ":" in address.host else address.host
        if not address.is_loopback and context is None:
            log.warning("the server at %s:%d is reachable by others without TLS", host, port)
        yield f"{scheme}://{host}:{port}"
    finally:
        await runner.cleanup()
