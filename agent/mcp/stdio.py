"""An MCP server as a process in the sandbox of commands, and the two streams that lead to it."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ToolError
from agent.mcp.program_folders import program_folders
from agent.mcp.settings import MOST_MESSAGE_BYTES, McpServerSettings
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.shell.confined_server import ConfinedServer, ServerCommand, TooMuchOutput
from agent.tools.shell.resource_limits import ResourceLimits
from agent.tools.shell.server_log import ServerLog

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

# So many messages wait for the client; a server that sends more at once is ended.
_MOST_WAITING = 1_000


class ServerProcess:
    """Starts a server and hands out its streams; everything of it has ended when the block does.

    `home` is the folder that the server has as its /tmp and HOME, from start to start; `meters`
    look after what it uses up.
    """

    def __init__(
        self,
        server: McpServerSettings,
        settings: ToolSettings,
        home: Path,
        log: ServerLog,
        meters: ResourceLimits,
        reach: dict[str, Any] | None = None,
    ) -> None:
        self._server = server
        self._settings = settings
        self._home = home
        self._log = log
        self._meters = meters
        self._reach = reach or {}

    @asynccontextmanager
    async def open(self, on_end: Callable[[], None]) -> AsyncIterator["TransportStreams"]:
        """The streams, as the SDK's `Transport` has them; `on_end` is called when the server has
        ended."""
        import anyio
        from mcp import types
        from mcp.shared.message import SessionMessage

        to_client, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](
            _MOST_WAITING
        )
        write_stream, from_client = anyio.create_memory_object_stream[SessionMessage](0)
        lines = _LineSplitter(MOST_MESSAGE_BYTES)

        def on_output(data: bytes) -> None:
            for line in lines.feed(data):
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    # Servers print banners where only messages belong.
                    if not self._log.take(line + b"\n"):
                        raise TooMuchOutput from None
                    continue
                try:
                    to_client.send_nowait(SessionMessage(message))
                except (anyio.WouldBlock, anyio.BrokenResourceError):
                    raise TooMuchOutput from None

        async def end() -> None:
            on_end()
            await to_client.aclose()

        async def write(writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError, anyio.ClosedResourceError):
                async for each in from_client:
                    data = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    writer.write(data.encode() + b"\n")
                    await writer.drain()

        title = f"MCP server {self._server.name}"
        server = ConfinedServer(title, self._command, self._settings, self._log, self._meters)
        try:
            async with server.open(on_output, end) as writer:
                task = asyncio.create_task(write(writer), name=f"mcp input {self._server.name}")
                try:
                    yield read_stream, write_stream
                finally:
                    # The rest of what was written has left, or the server has ended.
                    task.cancel()
                    await asyncio.wait({task})
        finally:
            for stream in (read_stream, write_stream, from_client, to_client):
                await stream.aclose()

    def _command(self) -> ServerCommand:
        server = self._server
        return ServerCommand(
            (server.command or "", *map(os.path.expanduser, server.args)),
            server.work_folder or self._home / "work",
            self._home,
            program_folders(server, Path.home(), self._settings.off_limits),
            # A Node of 22.21 or later asks the proxy only when told to.
            {"NODE_USE_ENV_PROXY": "1", **self._variables()},
            server.network,
            server.read_only,
            self._reach,
        )

    def _variables(self) -> dict[str, str]:
        """Its own. Raises `ToolError` for what is no variable."""
        for name, value in self._server.env.items():
            if not name or "=" in name or "\0" in name + value:
                raise ToolError(
                    f"The MCP server {self._server.name}: {escape_line(name)[:80]!r} cannot be the "
                    "name of a variable, or its value has a character that none can have."
                )
        return dict(self._server.env)


class _LineSplitter:
    """Lines out of chunks, none of them longer than `limit_bytes`."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now. Raises `TooMuchOutput`."""
        self._rest += data
        if b"\n" not in data:
            if len(self._rest) > self._limit_bytes:
                raise TooMuchOutput
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        if max(map(len, lines), default=0) > self._limit_bytes:
            raise TooMuchOutput
        return [line for line in lines if line.strip()]
