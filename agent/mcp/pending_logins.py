"""Logins in two messages of a person: the first requests the link, the second returns the address
that it led to."""

import asyncio
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from agent.errors import ToolError
from agent.mcp.listing import ServerListing
from agent.mcp.login_file import LoginDialog, LoginFile

# Time that a person has for the login page.
LOGIN_TIMEOUT_S = 600.0
_LINK_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 60.0
_GIVE_UP_TIMEOUT_S = 5.0
# Without a listener the browser shows an error, and the address that the person copies.
_REDIRECT_URI = "http://127.0.0.1:41823/callback"


class SingleServer(Protocol):
    """Single server that a person is logging in to."""

    async def refresh(self, name: str) -> ServerListing: ...
    async def aclose(self) -> None: ...


class LoginSource(Protocol):
    """Part of `agent.mcp.servers.McpServers` that logins need."""

    def for_login(self, name: str, dialog: LoginDialog) -> SingleServer: ...
    def login_file(self, name: str) -> LoginFile: ...


class PastedDialog:
    """`LoginDialog` for a person who sends the address that the page redirected to."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        loop = asyncio.get_running_loop()
        self.link: asyncio.Future[str] = loop.create_future()
        self._address: asyncio.Future[str] = loop.create_future()

    async def show(self, url: str) -> None:
        if not self.link.done():
            self.link.set_result(url)

    async def answer(self) -> str:
        return await self._address

    def give_up(self) -> None:
        """Fail the login immediately instead of waiting for an address."""
        if not self._address.done():
            self._address.set_exception(ToolError("The login was abandoned."))
            # Mark the exception as retrieved: there may be no waiter.
            self._address.exception()

    def take(self, address: str) -> bool:
        """Finish the login with an address. Return False if it belongs to another login."""
        if not self.link.done():
            return False
        state = parse_qs(urlsplit(self.link.result()).query).get("state")
        if not state or parse_qs(urlsplit(address).query).get("state") != state:
            return False
        if not self._address.done():
            self._address.set_result(address)
        return True


class PendingLogins:
    """Pending logins, at most one per server; a new login replaces the pending one."""

    def __init__(self) -> None:
        self._logins: dict[str, tuple[PastedDialog, asyncio.Task[ServerListing]]] = {}

    async def begin(self, servers: LoginSource, name: str) -> str:
        """Return the link for the person, "" if the server needs no login. Raises `ToolError`."""
        await self._end(name)
        dialog = PastedDialog(_redirect_uri(servers, name))
        task = asyncio.create_task(_log_in(servers, name, dialog), name=f"mcp login {name}")
        self._logins[name] = dialog, task
        either: set[asyncio.Future[Any]] = {task, dialog.link}
        await asyncio.wait(either, timeout=_LINK_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if dialog.link.done():
            return dialog.link.result()
        del self._logins[name]
        if not task.done():
            await _cancel(task)
            raise ToolError(
                f"The MCP server {name} provided no login page within {_LINK_TIMEOUT_S:g} s."
            )
        task.result()
        return ""

    async def finish(self, name: str, address: str) -> ServerListing | None:
        """Finish a login and return the server's listing; None for an address of another login.

        Raises `ToolError`.
        """
        dialog, task = self._logins.get(name, (None, None))
        if dialog is None or task is None or not dialog.take(address):
            return None
        del self._logins[name]
        try:
            async with asyncio.timeout(_END_TIMEOUT_S):
                return await task
        except TimeoutError as exc:
            text = f"The MCP server {name} did not end the login within {_END_TIMEOUT_S:g} s."
            raise ToolError(text) from exc

    async def aclose(self) -> None:
        for name in list(self._logins):
            await self._end(name)

    async def _end(self, name: str) -> None:
        dialog, task = self._logins.pop(name, (None, None))
        if dialog is not None and task is not None:
            dialog.give_up()
            await asyncio.wait({task}, timeout=_GIVE_UP_TIMEOUT_S)
            await _cancel(task)


async def _log_in(servers: LoginSource, name: str, dialog: PastedDialog) -> ServerListing:
    alone = servers.for_login(name, dialog)
    try:
        async with asyncio.timeout(LOGIN_TIMEOUT_S):
            return await alone.refresh(name)
    except TimeoutError as exc:
        raise ToolError(f"The login to {name} took longer than {LOGIN_TIMEOUT_S:g} s.") from exc
    finally:
        await alone.aclose()


def _redirect_uri(servers: LoginSource, name: str) -> str:
    """Return the loopback redirect URI of an existing registration, or the default."""
    client = servers.login_file(name).read().get("client") or {}
    for uri in client.get("redirect_uris") or ():
        if urlsplit(str(uri)).hostname == "127.0.0.1":
            return str(uri)
    return _REDIRECT_URI


async def _cancel(task: asyncio.Task[ServerListing]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        # Mark the exception as retrieved.
        task.exception()
