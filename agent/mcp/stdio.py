"""Sandboxed process of an MCP server, and the streams to it."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.approvals import FolderAccess
from agent.errors import ToolError
from agent.mcp.settings import MAX_MESSAGE_BYTES, McpServerSettings
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity, FolderReplaced
from agent.security.sandbox.environment import TEMPORARY
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.shell.confined_server import (
    ConfinedServer,
    OutputBudget,
    ServerCommand,
    ServerLog,
    TooMuchOutput,
)
from agent.tools.shell.program_folders import folders_of_command, interpreter_of
from agent.tools.shell.resource_limits import ResourceLimits

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCMessage

# Maximum number of lines waiting to be decoded; a server that sends more at once is ended.
_MAX_PENDING_LINES = 1_000
# A longer line is decoded in a thread.
_MAX_INLINE_BYTES = 100_000


@frozen
class ServerFolders:
    """Real paths of the folders that a started server may open, with their identities.

    They are determined once. At a later start, a command could have put links to other folders
    there. The identity of a folder that was missing is None. `programs` maps each result of
    `program_folders` to its real path. These have no identity, because installers replace them: a
    command that can move a folder there can also copy it.
    """

    work_folder: Path | None = None
    identity: FolderIdentity | None = None
    others: Mapping[FolderAccess, FolderIdentity | None] = field(default_factory=dict)
    programs: Mapping[Path, Path] = field(default_factory=dict)

    @classmethod
    def of(cls, server: McpServerSettings, closed: Iterable[Path] = ()) -> "ServerFolders":
        """Return the folders of a server; `closed` as for `program_folders`. May block."""
        if server.url is not None:
            return cls()
        others = {access: _identity_of(access.path) for access in server.open_folders}
        programs = _real_paths(program_folders(server, Path.home(), closed))
        if server.work_folder is None:
            return cls(others=others, programs=programs)
        work_folder = server.work_folder.resolve()
        return cls(work_folder, _identity_of(work_folder), others, programs)

    def shown_programs(self, server: McpServerSettings, closed: Iterable[Path]) -> tuple[Path, ...]:
        """Return the program's folders outside the working folder. May block.

        Raises `ToolError` if links or the first line of a script now lead to other folders.
        """
        paths = (*self.programs, *program_folders(server, Path.home(), closed))
        # The working folder is opened by its identity, and includes the programs in it.
        outside = _real_paths(path for path in paths if not self._is_in_work_folder(path))
        for path, real in outside.items():
            if path in self.programs:
                is_same = real == self.programs[path]
            else:
                is_same = any(map(real.is_relative_to, self.programs.values()))
            if not is_same:
                raise ToolError(
                    f"The MCP server {server.name}: its program or a file in its arguments now "
                    f"needs {real}, which it did not need when Kore read the settings. If you "
                    "changed this, restart Kore."
                )
        return tuple(path for path in self.programs if path in outside)

    def _is_in_work_folder(self, path: Path) -> bool:
        return self.work_folder is not None and path.is_relative_to(self.work_folder)


def _real_paths(paths: Iterable[Path]) -> dict[Path, Path]:
    """Return the real path of each existing path. May block."""
    return {path: path.resolve() for path in paths if path.exists()}


def _identity_of(path: Path) -> FolderIdentity | None:
    with suppress(FolderReplaced):
        return FolderIdentity.of(path)
    return None


class ServerProcess:
    """Process of a server, with its streams; all of its processes end with the context.

    `home` persists between starts as /tmp and HOME; `meters` limit its resources. `folders` are the
    folders of the server.
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
        self.folders = ServerFolders()
        self._settings = settings
        self._home = home
        self._log = log
        self._meters = meters
        self._reach = reach or {}

    @asynccontextmanager
    async def open(self, on_end: Callable[[], None]) -> AsyncIterator["TransportStreams"]:
        """Open the streams in the form of the SDK's `Transport`; `on_end` is called when the server
        ends."""
        import anyio
        from mcp.shared.message import SessionMessage

        # Decoded messages are not buffered: they take far more memory than their lines.
        to_client, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, from_client = anyio.create_memory_object_stream[SessionMessage](0)
        reader = _MessageReader(to_client, self._log)

        async def end() -> None:
            # Deliver the output from before its end first.
            await reader.drain()
            on_end()
            await to_client.aclose()

        async def write(writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError, anyio.ClosedResourceError):
                async for session_message in from_client:
                    data = session_message.message.model_dump_json(
                        by_alias=True, exclude_unset=True
                    )
                    writer.write(data.encode() + b"\n")
                    await writer.drain()

        title = f"MCP server {self._server.name}"
        server = ConfinedServer(title, self._command, self._settings, self._log, self._meters)
        try:
            async with server.open(reader.feed, end) as writer:
                task = asyncio.create_task(write(writer), name=f"mcp input {self._server.name}")
                try:
                    yield read_stream, write_stream
                finally:
                    # The pending input was written, or the server has ended.
                    task.cancel()
                    await asyncio.wait({task})
        finally:
            await reader.aclose()
            for stream in (read_stream, write_stream, from_client, to_client):
                await stream.aclose()

    def _command(self) -> ServerCommand:
        server = self._server
        return ServerCommand(
            (program_of(server), *map(os.path.expanduser, server.args)),
            self.folders.work_folder or self._home / "work",
            self._home,
            self.folders.shown_programs(server, self._settings.off_limits),
            # Node 22.21 or later uses the proxy only with this variable.
            {"NODE_USE_ENV_PROXY": "1", **self._variables()},
            server.network,
            server.read_only,
            self._reach,
            self._work_identity(),
            self.folders.others,
        )

    def _work_identity(self) -> FolderIdentity | None:
        """Return the identity of the working folder, even if it was missing. Raises `ToolError`."""
        path = self.folders.work_folder
        if path is None or self.folders.identity is not None:
            return self.folders.identity
        if not os.path.lexists(path):
            raise ToolError(f"The MCP server {self._server.name}: there is no folder {path}.")
        return FolderIdentity.of(path)

    def _variables(self) -> dict[str, str]:
        """Return the configured variables. Raises `ToolError` for an invalid variable."""
        for name, value in self._server.env.items():
            if not name or "=" in name or "\0" in name + value:
                raise ToolError(
                    f"The MCP server {self._server.name}: {escape_line(name)[:80]!r} cannot be the "
                    "name of a variable, or its value has a character that none can have."
                )
        return dict(self._server.env)


class _MessageReader:
    """Decoder that sends a server's messages to the client, within a budget.

    Other lines go to the log.
    """

    def __init__(
        self, to_client: "MemoryObjectSendStream[SessionMessage | Exception]", log: ServerLog
    ) -> None:
        self._to_client = to_client
        self._log = log
        self._budget = OutputBudget()
        self._splitter = _LineSplitter(MAX_MESSAGE_BYTES)
        self._lines = asyncio.Queue[bytes | None](_MAX_PENDING_LINES)
        self._has_flooded_log = False
        self._delivery = asyncio.create_task(self._deliver(), name="mcp output")

    def feed(self, data: bytes) -> None:
        """Take a piece of output. Raises `TooMuchOutput`.

        Output after the client was closed is discarded.
        """
        self._budget.take(len(data))
        if self._has_flooded_log:
            raise TooMuchOutput
        if self._delivery.done():
            return
        for line in self._splitter.feed(data):
            self._budget.take_values(line)
            try:
                self._lines.put_nowait(line)
            except asyncio.QueueFull:
                raise TooMuchOutput from None

    async def drain(self) -> None:
        """Wait until everything was delivered."""
        ending = asyncio.create_task(self._lines.put(None))
        # A stopped task does not take the end marker from a full queue.
        await asyncio.wait({ending, self._delivery}, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            await asyncio.wait({self._delivery})
        ending.cancel()

    async def aclose(self) -> None:
        self._delivery.cancel()
        await asyncio.wait({self._delivery})

    async def _deliver(self) -> None:
        import anyio
        from mcp.shared.message import SessionMessage

        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while (line := await self._lines.get()) is not None:
                is_long = len(line) > _MAX_INLINE_BYTES
                message = await asyncio.to_thread(_decode, line) if is_long else _decode(line)
                if message is not None:
                    await self._to_client.send(SessionMessage(message))
                # Servers print banners between messages.
                elif not self._log.take(line + b"\n"):
                    self._has_flooded_log = True
                    return


def program_of(server: McpServerSettings) -> str:
    """Return the server's command; a project's relative path is resolved in the project."""
    command = os.path.expanduser(server.command or "")
    return str(server.project / command) if server.project and "/" in command else command


def program_folders(
    server: McpServerSettings, home: Path, closed: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """Return the folders that a server's program needs. May block.

    These are the folders of the program, of a script's interpreter, and of the files that the
    arguments name by full path; in each case the highest folder that looks like a program's, but
    never a folder that contains `home`, /tmp or a `closed` path. A file directly in `home` or /tmp
    is shown alone. A third-party server gets the folder of its program and the folders that a
    person gave to it.
    """
    own = () if server.reach is None else (server.reach.program,)
    program = shutil.which(program_of(server)) or ""
    is_named = "/" in (server.command or "")
    # A third-party script may name any program, and so any folder.
    from_path = () if is_named else (Path(program), interpreter_of(program))

    def may_show(path: Path) -> bool:
        return server.reach is None or path in from_path or server.reach.shows(path)

    # The server has a folder of its own in place of the machine's /tmp.
    shared = [home, Path(TEMPORARY)]
    closed = [*closed]
    # Files of Kore may be directly in the home folder.
    words = [str((server.project or Path()) / Path(word).expanduser()) for word in server.args]
    words = [word for word in words if Path(word) not in closed]
    folders = folders_of_command((program, *words), [*shared, *closed], may_show, shared)
    return tuple(dict.fromkeys((*own, *folders)))


def _decode(line: bytes) -> "JSONRPCMessage | None":
    """Return the message of a line, or None."""
    from mcp import types

    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


class _LineSplitter:
    """Splitter of chunks into lines of at most `limit_bytes`."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are now complete. Raises `TooMuchOutput`."""
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
