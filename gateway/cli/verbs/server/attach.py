"""Command `kore attach`: console of a remote Kore."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.errors import ConfigError
from agent.i18n import t
from agent.security.key_proof import literal_address
from gateway.cli.console.chat.conversation import Connect, converse
from gateway.cli.console.chat.repl import ReplOptions
from gateway.cli.folders import data_dir_of
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.runtime.local_access import read_access
from gateway.server.host_names import is_loopback, split_host
from gateway.server.remote_service import ClientTls, check_client_address, opened_service

_TOKEN_VARIABLE = "KORE_TOKEN"  # noqa: S105 - the variable's name
# Time limit and interval of attempts to reconnect to a server.
_RECONNECT_TIMEOUT_S = 600.0
_POLL_INTERVAL_S = 0.5


def run(args: argparse.Namespace) -> int:
    """Run the console. Raises `KoreError`."""
    return asyncio.run(_attach(args))


async def _attach(args: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(t("kore attach is a conversation and needs a terminal"))
    home = data_dir_of(args)
    home.ensure()
    start = ReplOptions(args.session or None, not (args.session or args.latest))
    await converse(connection_to(args), start, home.root)
    return 0


def connection_to(args: argparse.Namespace) -> Connect:
    """Return a function that connects to the service in `args`, also after a loss.

    Raises `ConfigError` for invalid arguments, before a screen opens.
    """
    _address_and_token(args)
    tls = ClientTls(args.ca, args.cert, args.key)

    @asynccontextmanager
    async def connect(lost: ConnectionLost | None) -> AsyncIterator[Service]:
        deadline = time.monotonic() + (_RECONNECT_TIMEOUT_S if lost is not None else 0)
        while True:
            # A restarted server may have another address.
            address, token = _address_and_token(args)
            try:
                async with opened_service(address, token, tls) as service:
                    # An exception in the body is not a failed attempt.
                    deadline = 0.0
                    yield service
                    return
            except ConnectionLost:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_POLL_INTERVAL_S)

    return connect


def _address_and_token(args: argparse.Namespace) -> tuple[str, str]:
    """Return the address and the token."""
    if args.address is None:
        access = read_access(data_dir_of(args).server_access)
        if access is None:
            raise ConfigError(
                t("no server runs here"), hint=t("start one with `kore serve`, or name an address")
            )
        return access.address, ""
    token = os.environ.get(_TOKEN_VARIABLE, "")
    if args.address.startswith("unix:"):
        return args.address, token
    if "://" not in args.address:
        scheme = "http" if is_loopback(split_host(args.address)[0]) else "https"
        args.address = f"{scheme}://{args.address}"
    args.address = literal_address(args.address)
    check_client_address(args.address)
    if not token:
        raise ConfigError(
            t("a token is needed to attach to {address}", address=args.address),
            hint=t("set KORE_TOKEN; `kore token add NAME --scope admin` makes one there"),
        )
    return args.address, token
