"""All MCP servers of an agent: what tools there are, and who answers their calls.

Nothing is started to know the tools: a server's list is kept on disk. It is started for the first
list, and for the first call.
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

from agent.elicitation import Elicitation, ElicitationAnswer
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
from agent.mcp.names import tool_names
from agent.mcp.pending_logins import LOGIN_S, PendingLogins
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.mcp.tool import McpTool
from agent.security.files.folder_identity import FolderIdentity
from agent.security.files.process_folder import ProcessFolder
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext, Tool
from agent.tools.shell.resource_limits import ResourceLimits
from agent.tools.shell.server_log import ServerLog
from agent.types import Taint, ToolResult

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams

    from agent.mcp.login import ServerLogin

log = logging.getLogger(__name__)

# A turn waits so long for the first lists of new servers; what comes later is there the next time.
FIRST_WAIT_S = 10.0
# A server that says all the time that its tools have changed is asked so often.
_LIST_AGAIN_S = 1.0
_NO_LOGINS = LoginOptions()


class McpServers:
    """A `ToolSource`. Any thread may ask for `tools`; all else belongs to one event loop at a time.

    `reach` is for tests: which addresses the network of servers may lead to.
    """

    def __init__(
        self,
        settings: McpSettings,
        tool_settings: ToolSettings,
        reach: dict[str, Any] | None = None,
        logins: LoginOptions = _NO_LOGINS,
        *,
        first_wait_s: float = FIRST_WAIT_S,
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
        self._first_wait_s = first_wait_s
        self._meters = ResourceLimits()
        for server in settings.servers:
            self._add(server)
        self._rebuild()

    def tools(self) -> tuple[Tool, ...]:
        return self._tools

    def taint_of(self, names: Collection[str]) -> frozenset[Taint]:
        is_strange = any(not tool.has_trusted_text and tool.name in names for tool in self._tools)
        return UNTRUSTED if is_strange else NOTHING

    def search_tools(self, names: Collection[str]) -> tuple[Tool, ...]:
        from agent.mcp.search import McpCall, ToolSearch

        tools = [tool for tool in self._tools if tool.name in names]
        return (ToolSearch(tools), McpCall(tools)) if tools else ()

    def mcp_tools(self) -> tuple[McpTool, ...]:
        """The same, as what they are."""
        return self._tools

    def listing(self, name: str) -> ServerListing | None:
        """What a server was last seen to offer."""
        return self._servers[name].listing

    def changes(self, name: str) -> dict[str, McpToolDefinition | None]:
        """The tools of a server that its owner has not accepted as they are now, by name, each as
        it was accepted; None for a new one."""
        server = self._servers[name]
        return {tool.name: server.accepted.of(tool) for tool in server.unaccepted}

    def connection(self, name: str) -> McpConnection:
        return self._servers[name].connection

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._servers)

    def apply(self, settings: McpSettings) -> None:
        """Have other servers from now on; those that are as they were go on."""
        servers = {server.name: server for server in settings.servers}
        for name, each in list(self._servers.items()):
            if servers.get(name) != each.settings:
                retired = self._servers.pop(name)
                self._retired.append(retired.connection)
                if retired.listing_task is not None:
                    # It would start the server again.
                    retired.listing_task.cancel()
        for name, server in servers.items():
            if name not in self._servers:
                self._add(server)
        self._rebuild()

    async def load(self) -> Sequence[str]:
        """Ask the servers whose tools are not known, all at once, for a moment the first time;
        returns a sentence about each that failed, once."""
        if self._servers:
            await asyncio.to_thread(self._root)  # here, as it may block
        retired, self._retired = self._retired, []
        await asyncio.gather(*(connection.aclose() for connection in retired))
        await self._read_accepted()
        new_tasks = []
        for each in self._servers.values():
            if each.needs_listing:
                is_new, task = each.listing_task is None, self._begin(each)
                new_tasks += [task] if is_new else []
        if new_tasks:
            await asyncio.wait(new_tasks, timeout=self._first_wait_s)
            for each in self._servers.values():
                if each.is_starting:
                    each.note_slow_start()
        return [text for each in self._servers.values() for text in each.take_notices()]

    def starting(self) -> Sequence[str]:
        """The servers that have been asked for their first list and have not answered yet."""
        return [name for name, each in self._servers.items() if each.is_starting]

    async def refresh(self, name: str) -> ServerListing:
        """What a server offers now. Raises `ToolError`."""
        return await self._refresh(self._servers[name])

    async def accept(self, name: str) -> None:
        """Take a server's tools as they are now for what they should be."""
        await self._accept(self._servers[name])
        self._rebuild()

    async def aclose(self) -> None:
        """End all servers; what they had only for a time goes."""
        await self.pending_logins.aclose()
        self._is_closing = True
        try:
            tasks = list(self._background)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            connections = [*self._retired, *(each.connection for each in self._servers.values())]
            await asyncio.gather(*(connection.aclose() for connection in connections))
        finally:
            self._is_closing = False
        await asyncio.to_thread(self._own_folder.close)

    def folder_of(self, name: str) -> Path:
        """Where a server's home and log are."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        plain = "".join(char if char.isalnum() and char.isascii() else "-" for char in name)[:40]
        return self._root() / f"{plain}-{digest}"

    def for_login(self, name: str, dialog: LoginDialog) -> "McpServers":
        """The same server alone, to log in to with this dialog."""
        server = replace(self._servers[name].settings, start_timeout_s=LOGIN_S)
        settings = McpSettings((server,), self._root(), self._sealer)
        logins = replace(self._logins, dialog=dialog)
        return McpServers(settings, self._tool_settings, self._reach, logins)

    def login_file(self, name: str) -> LoginFile:
        """Where the tokens of a server are kept."""
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
            # What a server tells while it ends would start it again.
            if not self._is_closing and self._servers.get(server.name) is entry:
                self._begin(entry)

        log_file = ServerLog(partial(self.folder_of, server.name))
        login: ServerLogin | None = None
        identity = _folder_identity(server)

        def open_transport(
            on_end: Callable[[], None], on_refusal: Callable[[], None]
        ) -> AbstractAsyncContextManager["TransportStreams"]:
            nonlocal login
            if server.url is not None:
                from agent.mcp.http import open_http

                login = self._login(server)
                return open_http(server, on_refusal, login)
            from agent.mcp.stdio import ServerProcess

            log_file.begin()
            home = self.folder_of(server.name)
            process = ServerProcess(
                server, self._tool_settings, home, log_file, self._meters, self._reach
            )
            process.identity = identity
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
        """What adds tokens to requests, unless a header that is configured does."""
        if any(name.lower() == "authorization" for name in server.headers):
            return None
        from agent.mcp.login import ServerLogin

        return ServerLogin(server, self.login_file(server.name), self._logins)

    def _listing_path(self, server: McpServerSettings) -> Path:
        return self.folder_of(server.name) / "listing.json"

    def _accepted_path(self, server: McpServerSettings) -> Path:
        return self.folder_of(server.name) / "accepted.json"

    async def _read_accepted(self) -> None:
        """Take in what the owner has accepted in another process."""
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
        """Ask a server for its list, in the background."""
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
                await asyncio.sleep(_LIST_AGAIN_S)
                await self._refresh(server)
            server.failure = ""
        except ToolError as exc:
            server.note_failure(str(exc))

    async def _refresh(self, server: KnownServer) -> ServerListing:
        server.is_stale = False
        return await self._keep(server, await server.connection.list())

    async def _keep(self, server: KnownServer, listing: ServerListing) -> ServerListing:
        """Remember what a server offers, unless it is one no longer."""
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
        """Make the tools anew from all lists."""
        for server in self._servers.values():
            server.compare()
        offers = [
            (each, tool)
            for each in self._servers.values()
            for tool in each.offer()
            if each.settings.offers(tool.name)
        ]
        sandbox = self._tool_settings.sandbox
        names = tool_names((each.settings.name, tool.name) for each, tool in offers)
        self._tools = tuple(
            McpTool(
                names[each.settings.name, tool.name],
                tool,
                each.settings,
                partial(self._invoke, each),
                each.accepted,
                is_sandboxed=sandbox is not None and sandbox.confines,
            )
            for each, tool in offers
        )

    async def _invoke(
        self,
        server: KnownServer,
        definition: McpToolDefinition,
        args: Mapping[str, Any],
        call: CallContext,
    ) -> ToolResult:
        """What the server answers to a call of the tool that was judged by this definition."""
        from agent.mcp.results import tool_result

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            call.output(f"{message or ''} {share}\n".lstrip(), "stdout")

        async def work(client: "Client") -> ToolResult:
            if not server.connection.is_listed:
                # What it offers may have changed since it was last started.
                await self._keep(server, await server.connection.ask_listing(client))
            server.check(definition)
            if server.is_resource_tool(definition):
                return await resources.read_resource(client, args.get("uri"))
            result = await client.call_tool(
                definition.name, dict(args), progress_callback=on_progress
            )
            return tool_result(result)

        what = f"the tool {definition.name}"
        ask = call.elicit

        async def elicit(question: Elicitation) -> ElicitationAnswer:
            assert ask is not None
            return await ask(question, call)

        return await server.connection.request(
            work, server.settings.timeout_s, what=what, elicit=None if ask is None else elicit
        )


def _folder_identity(server: McpServerSettings) -> FolderIdentity | None:
    """Return the identity of the folder that a server is given; None without one."""
    folder = server.work_folder if server.url is None else None
    if folder is None or not folder.is_dir():
        return None
    return FolderIdentity.of(folder.resolve())
