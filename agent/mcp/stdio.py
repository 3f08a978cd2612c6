"""An MCP server as a process in the sandbox of commands, and the two streams that lead to it."""

import asyncio
import logging
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ToolError
from agent.mcp.program_folders import program_folders
from agent.mcp.server_log import ServerLog
from agent.mcp.settings import MOST_MESSAGE_BYTES, McpServerSettings
from agent.security.files.private_folder import make_private_folder
from agent.security.sandbox.base import SandboxCommand, ShowsFolders
from agent.security.sandbox.unconfined import Unconfined
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.shell.mount_restrictions import MountRestrictions, mount_restrictions
from agent.tools.shell.process_group import Exit, run
from agent.tools.shell.resource_limits import CommandMeter, ResourceLimits
from agent.types import ToolCall

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

log = logging.getLogger(__name__)

# So many messages wait for the client; a server that sends more at once is ended.
_MOST_WAITING = 1_000
_GRACE_S = 1.0
# It may run for weeks: it is looked at less often than a command.
_LOOK_S = 5.0


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
                    self._on_log(line + b"\n")
                    continue
                to_client.send_nowait(SessionMessage(message))

        async with AsyncExitStack() as stack:
            stdin_r, stdin_w = os.pipe()
            stack.callback(_close_quietly, stdin_r)
            writer = await _pipe_writer(stdin_w)
            stack.callback(writer.close)

            async def serve() -> None:
                try:
                    end = await self._run(stdin_r, on_output)
                    if end.reason:
                        self._log.fail(end.reason)
                    else:
                        self._log.write(f"[ended with exit code {end.code}]\n".encode())
                except (_TooMuch, ToolError, OSError) as exc:
                    self._log.fail(str(exc))
                finally:
                    on_end()
                    await to_client.aclose()

            async def write() -> None:
                with suppress(ConnectionError, anyio.ClosedResourceError):
                    async for each in from_client:
                        data = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                        writer.write(data.encode() + b"\n")
                        await writer.drain()

            tasks = [
                asyncio.create_task(serve(), name=f"mcp server {self._server.name}"),
                asyncio.create_task(write(), name=f"mcp input {self._server.name}"),
            ]
            try:
                yield read_stream, write_stream
            finally:
                # A server ends by itself when its input does; it has a moment for that.
                writer.close()
                await asyncio.wait(tasks[:1], timeout=_GRACE_S)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                for stream in (read_stream, write_stream, from_client, to_client):
                    await stream.aclose()

    async def _run(self, stdin: int, on_output: Callable[[bytes], None]) -> Exit:
        import anyio

        async with AsyncExitStack() as stack:
            proxy = None
            sandbox = self._settings.sandbox or Unconfined()
            if sandbox.confines and self._server.network and sandbox.supports_egress:
                from agent.security.network.egress_proxy import EgressProxy
                from agent.security.network.proxy_connection import EgressGrant

                grant = EgressGrant(self._server.network, **self._reach)
                proxy = await stack.enter_async_context(EgressProxy.open(grant, self._record))
            if isinstance(sandbox, ShowsFolders):
                closed = self._settings.off_limits
                folders = await asyncio.to_thread(
                    program_folders, self._server, Path.home(), closed
                )
                sandbox = sandbox.showing(folders)
            job = await asyncio.to_thread(self._job, stdin, proxy)
            spawn = stack.enter_context(sandbox.prepare(job))
            failures: list[_TooMuch] = []
            running: asyncio.Task[Any] | None = None

            def guarded(take: Callable[[bytes], None], data: bytes) -> None:
                try:
                    take(data)
                except (_TooMuch, anyio.WouldBlock, anyio.BrokenResourceError) as exc:
                    failures.append(exc if isinstance(exc, _TooMuch) else _TooMuch())
                    if running is not None:
                        running.cancel()

            meter = await stack.enter_async_context(self._meter(job.folder))
            work = run(
                spawn,
                None,
                partial(guarded, on_output),
                meter,
                on_error=partial(guarded, self._on_log),
            )
            running = asyncio.ensure_future(work)
            try:
                end: Exit = await running
                return end
            except asyncio.CancelledError:
                if failures:
                    raise failures[0] from None
                running.cancel()
                await asyncio.wait({running})
                raise

    def _meter(self, folder: Path) -> AbstractAsyncContextManager[CommandMeter | None]:
        """What ends it when it uses up the memory or the disk."""
        if (limits := self._settings.limits) is None:
            return nullcontext()
        folders = (self._home,) if self._server.read_only else (self._home, folder)
        session = f"mcp {self._server.name}"
        return self._meters.metered(CommandMeter(session, folders, limits, look_s=_LOOK_S))

    def _on_log(self, data: bytes) -> None:
        if not self._log.take(data):
            raise _TooMuch("It wrote more to its log than Kore takes.")

    def _job(self, stdin: int, proxy: Any) -> SandboxCommand:
        for name in ("tmp", "shm", "work"):
            make_private_folder(self._home / name)
        program = self._server.command or ""
        if "/" not in program and shutil.which(program) is None:
            raise ToolError(f"There is no program {program} on this machine.")
        folder = (self._server.work_folder or self._home / "work").resolve()
        if not folder.is_dir():
            raise ToolError(f"The MCP server {self._server.name}: there is no folder {folder}.")
        is_confined = (self._settings.sandbox or Unconfined()).confines
        covered = self._restrictions(folder) if is_confined else MountRestrictions()
        words = [self._server.command or "", *map(os.path.expanduser, self._server.args)]
        return SandboxCommand(
            f"exec {shlex.join(words)}",
            folder,
            folder,
            covered.forbidden_paths,
            covered.masked_paths,
            covered.read_only_paths,
            proxy,
            stdin,
            self._server.read_only,
            self._home,
            # A Node of 22.21 or later asks the proxy only when told to.
            variables={"NODE_USE_ENV_PROXY": "1", **self._variables()},
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

    def _restrictions(self, folder: Path) -> MountRestrictions:
        """What of its folder the server must not see or change: as for a command of the owner's
        that knows strangers' words."""
        environment = ToolEnvironment(
            session=f"mcp {self._server.name}",
            workspace=folder,
            memory=folder / "memory" / "MEMORY.md",
            owner=True,
        )
        call = CallContext(
            ToolCall("", self._server.name, {}, "{}"),
            environment,
            lambda text, stream: None,
            taint=frozenset({"untrusted"}),
        )
        return mount_restrictions(self._settings, call)

    async def _record(self, where: str, allowed: bool, reason: str) -> None:
        if not allowed:
            self._log.write(f"[network: {where} refused, {reason}]\n".encode())


class _TooMuch(Exception):
    """A server that never stops; the text is a sentence."""

    def __init__(self, text: str = "It sent more than Kore takes at once.") -> None:
        super().__init__(text)


class _LineSplitter:
    """Lines out of chunks, none of them longer than `limit_bytes`."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now. Raises `_TooMuch`."""
        self._rest += data
        if b"\n" not in data:
            if len(self._rest) > self._limit_bytes:
                raise _TooMuch
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        if max(map(len, lines), default=0) > self._limit_bytes:
            raise _TooMuch
        return [line for line in lines if line.strip()]


async def _pipe_writer(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(fd, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


def _close_quietly(fd: int) -> None:
    with suppress(OSError):
        os.close(fd)
