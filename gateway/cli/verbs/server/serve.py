"""Commands `kore serve` and `kore web`: server for clients, editors and browsers."""

import argparse
import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from agent.i18n import t
from gateway.cli.context import data_dir_of
from gateway.cli.output import tell

if TYPE_CHECKING:
    from gateway.config import Settings
    from gateway.control.service import Service
    from gateway.core.errors import ConnectionLost
    from gateway.runtime.paths import DataDir
    from gateway.server.listener import ServerOptions
    from gateway.server.local_access import ServerAccess

log = logging.getLogger(__name__)


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--listen-addr",
        metavar="ADDR",
        help="127.0.0.1:PORT, unix:/PATH, or auto for a free port (default: 127.0.0.1:8790)",
    )
    add("--tls-cert", type=Path, metavar="FILE", help="certificate for TLS 1.3, in PEM form")
    add("--tls-key", type=Path, metavar="FILE", help="its private key")
    add("--client-ca", type=Path, metavar="FILE", help="clients must show a certificate of this CA")
    add("--insecure", action="store_true", help="let other machines connect without TLS")


def add_web_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--listen-addr", metavar="ADDR", help="as for `kore serve`")
    parser.add_argument("--no-browser", action="store_true", help="only print the link")


def run_serve(args: argparse.Namespace) -> int:
    """Serve until a signal. Raises `KoreError`."""
    return asyncio.run(_serve(args))


def run_web(args: argparse.Namespace) -> int:
    """Print a browser link to the running server, or start a server here."""
    return asyncio.run(_web(args))


async def _serve(args: argparse.Namespace) -> int:
    async with _served(args) as access:
        address = access.web or access.address
        tell(t("Kore serves at {address}; press Ctrl-C to stop", address=address))
        await _until_signal()
    return 0


async def _web(args: argparse.Namespace) -> int:
    from gateway.server.local_access import read_access
    from gateway.server.login_link import login_link

    home = data_dir_of(args)
    access = read_access(home.server_access)
    link = await login_link(access) if access is not None else None
    if link is not None:
        _show(link, args, home)
        return 0
    async with _served(args) as own_access:
        link = await login_link(own_access)
        if link is None:
            raise ConfigError(t("a browser needs a server at an address, not at a Unix socket"))
        _show(link, args, home)
        tell(t("Kore serves at {address}; press Ctrl-C to stop", address=own_access.web))
        try:
            await _until_signal()
        finally:
            home.login_page.unlink(missing_ok=True)
    return 0


def _show(link: str, args: argparse.Namespace, home: "DataDir") -> None:
    import os
    import sys

    from gateway.cli.private_link import open_privately

    print(link, flush=True)
    tell(t("This link works once, within five minutes."))
    has_screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not args.no_browser and (has_screen or sys.platform == "darwin"):
        open_privately(home.login_page, link)


@asynccontextmanager
async def _served(args: argparse.Namespace) -> "AsyncIterator[ServerAccess]":
    """Run the server until the block ends, across changes of the owner process."""
    from gateway.cli.chat.service_connection import next_connection
    from gateway.cli.chat.terminal import connected_service
    from gateway.cli.service_link import settings_beside
    from gateway.runtime.log_setup import open_logs
    from gateway.server.listener import serve
    from gateway.server.local_access import published_access
    from gateway.server.replaceable_service import kept_service
    from gateway.server.tokens import TokenFile

    # It may have to ask a running Kore, in an event loop of its own.
    settings, home = await asyncio.to_thread(settings_beside, args), data_dir_of(args)
    options = _options(args, settings)
    options.check()
    home.ensure()
    open_logs(settings, args.crash.redactor, terminal=False, default_file=home.logs / "server.log")

    def open_next(lost: "ConnectionLost | None") -> "AbstractAsyncContextManager[Service]":
        if lost is None:
            return connected_service(settings, home)
        return next_connection(settings, home, lost)

    tokens = TokenFile(home.tokens)
    async with kept_service(open_next) as (service, keeper):
        async with serve(service, tokens, options, home.server_socket) as access:
            with published_access(home.server_access, access):
                yield access
        if keeper.done():
            keeper.result()


def _options(args: argparse.Namespace, settings: "Settings") -> "ServerOptions":
    from gateway.server.listener import ListenAddress, TlsFiles, options_of

    options = options_of(settings.server)
    if args.listen_addr is not None:
        options = replace(options, address=ListenAddress.parse(args.listen_addr))
    if getattr(args, "tls_cert", None) or getattr(args, "tls_key", None):
        if not (args.tls_cert and args.tls_key):
            raise ConfigError(t("TLS needs both --tls-cert and --tls-key"))
        options = replace(options, tls=TlsFiles(args.tls_cert, args.tls_key, args.client_ca))
    elif getattr(args, "client_ca", None):
        raise ConfigError(t("--client-ca needs --tls-cert and --tls-key"))
    if getattr(args, "insecure", False):
        options = replace(options, insecure=True)
    return options


async def _until_signal() -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
