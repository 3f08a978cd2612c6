"""MCP servers of an agent, their tools, and the routing of calls.

Listings are stored on disk, so a server starts only for its first listing and for its first call.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ToolError
from agent.mcp import resources
from agent.mcp.connection import McpConnection
from agent.mcp.known_server import KnownServer
from agent.mcp.listing import (
    AcceptedTools,
    McpToolDefinition,
    ServerListing,
    read_accepted,
    read_listing,
    write_accepted,
    write_listing,
)
from agent.mcp.login_file import LoginDialog, LoginFile, LoginOptions
from agent.mcp.pending_logins import LOGIN_TIMEOUT_S, PendingLogins
from agent.mcp.results import tool_result
from agent.mcp.search import McpCall, ToolSearch
from agent.mcp.settings import McpServerSettings, McpSettings, tool_names
from agent.mcp.stdio import ServerFolders, ServerProcess
from agent.mcp.tool import McpTool
from agent.security.files.private_folder import ProcessFolder
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext, Tool
from agent.tools.elicitation import Elicitation, ElicitationAnswer
from agent.tools.shell.confined_server import ServerLog
from agent.tools.shell.resource_limits import ResourceLimits
from agent.types import Taint, ToolResult

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams

    from agent.mcp.login import ServerLogin

log = logging.getLogger(__name__)

# A turn waits this long for the first listings of new servers; later listings count from the next
# turn.
FIRST_LISTING_TIMEOUT_S = 10.0
# Minimum interval between listings of a server that reports changes all the time.
_LISTING_INTERVAL_S = 1.0
_NO_LOGINS = LoginOptions()


class McpServers:
    """`ToolSource` of all servers.

    `tools` may be called from any thread; everything else belongs to one event loop at a time.
    `reach` is for tests: the addresses that the network of servers may reach.
    """

    def __init__(
        self,
        settings: McpSettings,
        tool_settings: ToolSettings,
        reach: dict[str, Any] | None = None,
        logins: LoginOptions = _NO_LOGINS,
        *,
        first_listing_timeout_s: float = FIRST_LISTING_TIMEOUT_S,
    ) -> None:
        self._tool_settings = tool_settings
        self._reach = reach
        self._sealer, self._elicit = settings.sealer, settings.elicit
        self._logins = logins
        self.pending_logins = PendingLogins()
        self._own_folder = ProcessFolder("kore-mcp-")
        self._folder = settings.folder
        self._servers: dict[str, KnownServer] = {}
        self._tools: tuple[McpTool, ...] = ()
        self._retired: list[McpConnection] = []
        self._background: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._first_listing_timeout_s = first_listing_timeout_s
        self._meters = ResourceLimits()
        for server in settings.servers:
            self._add(server)
        self._rebuild()

    def tools(self) -> tuple[Tool, ...]:
        return self._tools

    def taint_of(self, names: Collection[str]) -> frozenset[Taint]:
        is_untrusted = any(not tool.has_trusted_text and tool.name in names for tool in self._tools)
        return UNTRUSTED if is_untrusted else NOTHING

    def search_tools(self, names: Collection[str]) -> tuple[Tool, ...]:
        tools = [tool for tool in self._tools if tool.name in names]
        return (ToolSearch(tools), McpCall(tools)) if tools else ()

    def mcp_tools(self) -> tuple[McpTool, ...]:
        """Return the tools as `McpTool`."""
        return self._tools

    def listing(self, name: str) -> ServerListing | None:
        """Return the last known listing of a server."""
        return self._servers[name].listing

    def changes(self, name: str) -> dict[str, McpToolDefinition | None]:
        """Return the unaccepted tools of a server by name, each in its previously accepted form;
        None for a new tool.
        """
        server = self._servers[name]
        return {tool.name: server.accepted.of(tool) for tool in server.unaccepted}

    def connection(self, name: str) -> McpConnection:
        return self._servers[name].connection

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._servers)

    def apply(self, settings: McpSettings) -> None:
        """Replace the configuration; unchanged servers keep running."""
        servers = {server.name: server for server in settings.servers}
        for name, known_server in list(self._servers.items()):
            if servers.get(name) != known_server.settings:
                retired = self._servers.pop(name)
                self._retired.append(retired.connection)
                if retired.listing_task is not None:
                    # The task would start the server again.
                    retired.listing_task.cancel()
        for name, server in servers.items():
            if name not in self._servers:
                self._add(server)
        self._rebuild()

    async def load(self) -> Sequence[str]:
        """List the servers with unknown tools, all at once, with a short wait the first time.

        Returns each server's notices once.
        """
        if self._servers:
            await asyncio.to_thread(self._root)  # create it in this thread, because it may block
        retired, self._retired = self._retired, []
        await asyncio.gather(*(connection.aclose() for connection in retired))
        await self._read_accepted()
        new_tasks = []
        for known_server in self._servers.values():
            if known_server.needs_listing:
                is_new, task = known_server.listing_task is None, self._begin(known_server)
                new_tasks += [task] if is_new else []
        if new_tasks:
            await asyncio.wait(new_tasks, timeout=self._first_listing_timeout_s)
            for known_server in self._servers.values():
                if known_server.is_starting:
                    known_server.note_slow_start()
        return [
            text for known_server in self._servers.values() for text in known_server.take_notices()
        ]

    def starting(self) -> Sequence[str]:
        """Return the servers whose first listing is pending."""
        return [name for name, known_server in self._servers.items() if known_server.is_starting]

    async def refresh(self, name: str) -> ServerListing:
        """Return the current listing of a server. Raises `ToolError`."""
        return await self._refresh(self._servers[name])

    async def accept(self, name: str) -> None:
        """Accept a server's current tools."""
        await self._accept(self._servers[name])
        self._rebuild()

    async def aclose(self) -> None:
        """End all servers and remove temporary folders."""
        await self.pending_logins.aclose()
        self._is_closing = True
        try:
            tasks = list(self._background)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            connections = [
                *self._retired,
                *(known_server.connection for known_server in self._servers.values()),
            ]
            await asyncio.gather(*(connection.aclose() for connection in connections))
        finally:
            self._is_closing = False
        await asyncio.to_thread(self._own_folder.close)

    def folder_of(self, name: str) -> Path:
        """Return the folder of a server's home and log."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        plain = "".join(char if char.isalnum() and char.isascii() else "-" for char in name)[:40]
        return self._root() / f"{plain}-{digest}"

    def for_login(self, name: str, dialog: LoginDialog) -> "McpServers":
        """Return only this server, to log in to it with a dialog."""
        server = replace(self._servers[name].settings, start_timeout_s=LOGIN_TIMEOUT_S)
        settings = McpSettings((server,), self._root(), self._sealer)
        logins = replace(self._logins, dialog=dialog)
        return McpServers(settings, self._tool_settings, self._reach, logins)

    def login_file(self, name: str) -> LoginFile:
        """Return the file with the tokens of a server."""
        server = self._servers[name].settings
        path = self.folder_of(name) / "login"
        return LoginFile(path, server.url or "", self._sealer, self._logins.learn)

    def _root(self) -> Path:
        if self._folder is not None:
            return self._folder
        return self._own_folder.path()

    def _add(self, server: McpServerSettings) -> None:
        def on_change() -> None:
            entry.is_stale = True
            # Changes reported while it is being closed would start the server again.
            if not self._is_closing and self._servers.get(server.name) is entry:
                self._begin(entry)

        log_file = ServerLog(partial(self.folder_of, server.name))
        login: ServerLogin | None = None
        folders = ServerFolders.of(server, self._tool_settings.off_limits)

        def open_transport(
            on_end: Callable[[], None], on_refusal: Callable[[], None]
        ) -> AbstractAsyncContextManager["TransportStreams"]:
            nonlocal login
            if server.url is not None:
                from agent.mcp.http import open_http

                login = self._login(server)
                return open_http(server, on_refusal, login)
            log_file.begin()
            home = self.folder_of(server.name)
            process = ServerProcess(
                server, self._tool_settings, home, log_file, self._meters, self._reach
            )
            process.folders = folders
            return process.open(on_end)

        def last_words() -> str:
            return log_file.last_words() if login is None else login.failure

        connection = McpConnection(server, open_transport, on_change, last_words, self._elicit)
        listing = accepted = None
        if self._folder is not None:
            listing = read_listing(self._listing_path(server), server.digest)
            accepted = read_accepted(self._accepted_path(server), server.program_digest)
        entry = self._servers[server.name] = KnownServer(server, connection, listing, accepted)

    def _login(self, server: McpServerSettings) -> "ServerLogin | None":
        """Return the login of a server, unless a configured header has the token."""
        if any(name.lower() == "authorization" for name in server.headers):
            return None
        from agent.mcp.login import ServerLogin

        return ServerLogin(server, self.login_file(server.name), self._logins)

    def _listing_path(self, server: McpServerSettings) -> Path:
        return self.folder_of(server.name) / "listing.json"

    def _accepted_path(self, server: McpServerSettings) -> Path:
        return self.folder_of(server.name) / "accepted.json"

    async def _read_accepted(self) -> None:
        """Load the tools that the owner has accepted in another process."""
        if self._folder is None:
            return
        for server in self._servers.values():
            if not server.unaccepted:
                continue
            path, digest = self._accepted_path(server.settings), server.settings.program_digest
            accepted = await asyncio.to_thread(read_accepted, path, digest)
            if accepted is not None and accepted != server.owner_accepted:
                server.owner_accepted = accepted
                self._rebuild()

    async def _accept(self, server: KnownServer) -> None:
        if server.listing is not None:
            accepted = AcceptedTools({tool.name: tool for tool in server.listing.tools})
            server.owner_accepted = accepted
            path, digest = self._accepted_path(server.settings), server.settings.program_digest
            await self._write(path, partial(write_accepted, path, digest, accepted))

    def _begin(self, server: KnownServer) -> asyncio.Task[None]:
        """Start the listing of a server in the background."""
        if server.listing_task is None or server.listing_task.done():
            task = asyncio.create_task(self._list(server), name=f"mcp list {server.settings.name}")
            self._background.add(task)
            task.add_done_callback(self._background.discard)
            server.listing_task = task
        return server.listing_task

    async def _list(self, server: KnownServer) -> None:
        try:
            await self._refresh(server)
            while server.is_stale:
                await asyncio.sleep(_LISTING_INTERVAL_S)
                await self._refresh(server)
            server.failure = ""
        except ToolError as exc:
            server.note_failure(str(exc))

    async def _refresh(self, server: KnownServer) -> ServerListing:
        server.is_stale = False
        return await self._store(server, await server.connection.list())

    async def _store(self, server: KnownServer, listing: ServerListing) -> ServerListing:
        """Store a listing, unless the server was removed or replaced."""
        if listing != server.listing and self._servers.get(server.settings.name) is server:
            is_first = server.owner_accepted is None and bool(listing.tools)
            server.take_listing(listing)
            path, digest = self._listing_path(server.settings), server.settings.digest
            await self._write(path, partial(write_listing, path, digest, listing))
            if is_first:
                # The owner has just configured the server.
                await self._accept(server)
            self._rebuild()
        return listing

    async def _write(self, path: Path, write: Callable[[], None]) -> None:
        if self._folder is None:
            return
        try:
            await asyncio.to_thread(write)
        except OSError as exc:
            log.warning("%s cannot be written: %s", path, exc)

    def _rebuild(self) -> None:
        """Build the tools from all listings."""
        for server in self._servers.values():
            server.compare()
        offers = [
            (known_server, tool)
            for known_server in self._servers.values()
            for tool in known_server.offer()
            if known_server.settings.offers(tool.name)
        ]
        sandbox = self._tool_settings.sandbox
        names = tool_names((known_server.settings.name, tool.name) for known_server, tool in offers)
        self._tools = tuple(
            McpTool(
                names[known_server.settings.name, tool.name],
                tool,
                known_server.settings,
                partial(self._invoke, known_server),
                known_server.accepted,
                is_sandboxed=sandbox is not None and sandbox.confines,
            )
            for known_server, tool in offers
        )

    async def _invoke(
        self,
        server: KnownServer,
        definition: McpToolDefinition,
        args: Mapping[str, Any],
        call: CallContext,
    ) -> ToolResult:
        """Call the tool with this judged definition."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            call.output(f"{message or ''} {share}\n".lstrip(), "stdout")

        async def work(client: "Client") -> ToolResult:
            if not server.connection.is_listed:
                # Its tools may have changed since the last start.
                await self._store(server, await server.connection.fetch_listing(client))
            server.check(definition)
            if server.is_resource_tool(definition):
                return await resources.read_resource(client, args.get("uri"))
            result = await client.call_tool(
                definition.name, dict(args), progress_callback=on_progress
            )
            return tool_result(result)

        operation = f"the tool {definition.name}"
        ask = call.elicit

        async def elicit(question: Elicitation) -> ElicitationAnswer:
            assert ask is not None
            return await ask(question, call)

        return await server.connection.request(
            work,
            server.settings.timeout_s,
            operation=operation,
            elicit=None if ask is None else elicit,
        )
