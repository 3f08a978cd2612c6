"""Commands `kore mcp login` and `logout`: OAuth login in the browser."""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agent.errors import KoreError, ToolError
from agent.i18n import t
from agent.mcp.login_file import LoginFile, LoginOptions
from agent.mcp.revocation import Revocation, end_login
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.settings import ToolSettings
from gateway.cli.browser import has_screen, open_privately
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, print_json
from gateway.cli.settings import settings_of
from gateway.cli.verbs.mcp.verb import find_server, open_servers
from gateway.config import Settings
from gateway.config.installed_plugins import InstalledPlugins
from gateway.config.servers import login_key_variable, server_of
from gateway.store.cipher import cipher_of

# Time limit for the login page.
_LOGIN_TIMEOUT_S = 600.0
_PATH = "/callback"
_MAX_REQUEST_BYTES = 32_000


class LoopbackDialog:
    """Dialog that shows the link of a login page and waits for its redirect.

    The redirect is a request to this machine, or its URL pasted into the terminal. A URL without
    the right `state` belongs to another login and is rejected.
    """

    def __init__(self, port: int, page: Path | None) -> None:
        """`page` is the file through which a browser is opened, or None for no browser."""
        self.redirect_uri = f"http://127.0.0.1:{port}{_PATH}"
        self._page = page
        self._state = ""
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def show(self, url: str) -> None:
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        print(t("Open this page to log in:"), clean(url), sep="\n", flush=True)
        if self._page is not None:
            await asyncio.to_thread(open_privately, self._page, url)
        else:
            print(t("Is the browser on another machine? Paste the address it ends up at here."))
        sys.stdout.flush()

    async def answer(self) -> str:
        loop = asyncio.get_running_loop()
        # Only a terminal or a pipe can be watched for input.
        with suppress(OSError, ValueError):
            loop.add_reader(sys.stdin.fileno(), self._read_line)
        try:
            return await self._address
        finally:
            with suppress(OSError, ValueError):
                loop.remove_reader(sys.stdin.fileno())

    def accept(self, address: str) -> bool:
        """Return whether a URL completes this login."""
        query = parse_qs(urlsplit(address).query)
        if not self._state or query.get("state") != [self._state]:
            return False
        if not self._address.done():
            self._address.set_result(address)
        return True

    def _read_line(self) -> None:
        data = os.read(sys.stdin.fileno(), _MAX_REQUEST_BYTES)
        if not data:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        elif (line := data.decode("utf-8", "replace").strip()) and not self.accept(line):
            print(t("this address does not belong to this login"), file=sys.stderr)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a single request of a browser."""
        try:
            async with asyncio.timeout(10):
                request = (await reader.readline()).decode("latin-1").split()
                while (await reader.readline()).strip():
                    pass
        except (TimeoutError, ValueError, ConnectionError):
            writer.close()
            return
        target = request[1] if len(request) == 3 and request[0] == "GET" else ""
        if urlsplit(target).path == _PATH and self.accept(target):
            status, text = "200 OK", t("You are logged in. You can close this page.")
        else:
            status, text = "400 Bad Request", t("this address does not belong to this login")
        body = text.encode()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        with suppress(ConnectionError):
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def _listening(port: int, page: Path | None) -> AsyncIterator[LoopbackDialog]:
    """Listen on this port of 127.0.0.1, or on any free port if it is in use."""
    dialogs: list[LoopbackDialog] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await dialogs[0].serve(reader, writer)

    try:
        server = await asyncio.start_server(serve, "127.0.0.1", port, limit=_MAX_REQUEST_BYTES)
    except OSError:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=_MAX_REQUEST_BYTES)
    async with server:
        bound = server.sockets[0].getsockname()[1]
        dialogs.append(LoopbackDialog(bound, page))
        yield dialogs[0]


def login(args: argparse.Namespace) -> int:
    """Log in to a server. Raises `KoreError` on failure."""
    settings = settings_of(args)
    server = find_server(args, settings)
    if server.url is None:
        raise KoreError(t("{name} is a command: it needs no login", name=args.name))
    return asyncio.run(_login(args, settings, server_of(args.name, server)))


async def _login(args: argparse.Namespace, settings: Settings, server: McpServerSettings) -> int:
    server = replace(server, start_timeout_s=_LOGIN_TIMEOUT_S)
    home = data_dir_of(args)
    sealer = cipher_of(login_key_variable(settings, InstalledPlugins(home.plugins)), os.environ)
    configured = McpSettings((server,), home.mcp, sealer)
    secret = os.environ.get(args.client_secret_env, "") if args.client_secret_env else ""
    if args.client_secret_env and not secret:
        raise KoreError(t("{name} is not set", name=args.client_secret_env))
    learn = args.crash.redactor.learn
    learn([secret])
    silent = McpServers(configured, ToolSettings(), logins=LoginOptions(learn))
    port = args.port or _port_of(silent.login_file(args.name))
    page = home.login_page if has_screen() and not args.no_browser else None
    async with _listening(port, page) as dialog:
        logins = LoginOptions(learn, dialog, args.client_id or "", secret)
        servers = McpServers(configured, ToolSettings(), logins=logins)
        try:
            listing = await servers.refresh(args.name)
            stored = servers.login_file(args.name).read()
        except ToolError as exc:
            raise KoreError(args.crash.redactor.clean(str(exc))) from None
        finally:
            await servers.aclose()
            home.login_page.unlink(missing_ok=True)
    if not stored.get("tokens"):
        print(t("{name} needs no login", name=args.name))
        return 0
    print(t("logged in to {name}: {count} tools", name=args.name, count=len(listing.tools)))
    return 0


def _port_of(file: LoginFile) -> int:
    """Return the port of the registered redirect URI; 0 without a registration."""
    client: Any = file.read().get("client") or {}
    uris = client.get("redirect_uris") or ["http://127.0.0.1:0/"]
    with suppress(ValueError):
        return urlsplit(uris[0]).port or 0
    return 0


def logout(args: argparse.Namespace) -> int:
    """Revoke the tokens at the server, and delete them and the registration."""
    settings = settings_of(args)
    find_server(args, settings)
    servers = open_servers(args, settings)
    had_login, revocation = False, Revocation()
    if args.name in servers.names:
        had_login, revocation = asyncio.run(end_login(servers.login_file(args.name)))
    if args.json:
        failure = args.crash.redactor.clean(revocation.failure)
        answer = {"name": args.name, "had_login": had_login, "revoked": revocation.is_done}
        print_json({**answer, **({"failure": failure} if failure else {})})
    elif had_login:
        print(t("logged out of {name}", name=args.name))
        print(args.crash.redactor.clean(revocation.sentence))
    else:
        print(t("{name} had no login", name=args.name))
    return 0
