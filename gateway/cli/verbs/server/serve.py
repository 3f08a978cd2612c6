"""Commands `kore serve` and `kore web`: server for clients, editors and browsers."""

import argparse
import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from agent.errors import ConfigError
from agent.i18n import t
from gateway.cli.browser import has_screen, open_privately
from gateway.cli.chat.service_connection import service_opener
from gateway.cli.folders import data_dir_of
from gateway.cli.output import tell
from gateway.cli.service_link import settings_or_last_valid
from gateway.config import Settings
from gateway.runtime.local_access import ServerAccess, published_access, read_access
from gateway.runtime.log_setup import open_logs
from gateway.runtime.paths import DataDir
from gateway.server.listener import ListenAddress, ServerOptions, TlsFiles, options_of, serve
from gateway.server.login_link import login_link
from gateway.server.replaceable_service import kept_service
from gateway.server.tokens import TokenFile

log = logging.getLogger(__name__)


def run_serve(args: argparse.Namespace) -> int:
    """Serve until a signal. Raises `KoreError`."""
    return asyncio.run(_serve(args))


def run_web(args: argparse.Namespace) -> int:
    """Print a browser link to the running server, or start a server here."""
    return asyncio.run(_web(args))


async def _serve(args: argparse.Namespace) -> int:
    async with _open_server(args) as access:
        address = access.web or access.address
        tell(t("Kore serves at {address}; press Ctrl-C to stop", address=address))
        await _until_signal()
    return 0


async def _web(args: argparse.Namespace) -> int:
    home = data_dir_of(args)
    access = read_access(home.server_access)
    link = await login_link(access) if access is not None else None
    if link is not None:
        _show(link, args, home)
        return 0
    async with _open_server(args) as own_access:
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


def _show(link: str, args: argparse.Namespace, home: DataDir) -> None:
    print(link, flush=True)
    tell(t("This link works once, within five minutes."))
    if not args.no_browser and has_screen():
        open_privately(home.login_page, link)


@asynccontextmanager
async def _open_server(args: argparse.Namespace) -> AsyncIterator[ServerAccess]:
    """Run the server while the context is open, across changes of the owner process."""
    # Loaded here, because it may have to ask a running Kore in a separate event loop.
    settings, home = await asyncio.to_thread(settings_or_last_valid, args), data_dir_of(args)
    options = _options(args, settings)
    options.check()
    home.ensure()
    open_logs(settings, args.crash.redactor, terminal=False, default_file=home.logs / "server.log")

    tokens = TokenFile(home.tokens)
    async with kept_service(service_opener(settings, home)) as (service, keeper):
        async with serve(service, tokens, options, home.server_socket) as access:
            with published_access(home.server_access, access):
                yield access
        if keeper.done():
            keeper.result()


def _options(args: argparse.Namespace, settings: Settings) -> ServerOptions:
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
