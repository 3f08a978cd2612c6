"""Long-running server in the sandbox of commands: an MCP server or a language server.

Kore communicates with it over its standard streams.
"""

import asyncio
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from agent.approvals import FolderAccess
from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity, check_folder
from agent.security.files.private_folder import make_private_folder
from agent.security.files.private_places import private_place
from agent.security.network.egress_proxy import EgressProxy
from agent.security.network.proxy_connection import EgressGrant, ProxyLimits
from agent.security.network.targets import NetworkReach
from agent.security.sandbox.base import AddedFolder, Sandbox, SandboxCommand, ShowsFolders
from agent.security.sandbox.unconfined import Unconfined
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.shell.mount_restrictions import (
    MountRestrictions,
    cover_added_folder,
    mount_restrictions,
)
from agent.tools.shell.process_group import Exit, run
from agent.tools.shell.resource_limits import CommandMeter, ResourceLimits
from agent.types import ToolCall

_LOG_FILE_BYTES = 500_000
# Limits of a server's log output: burst and rate per second.
_LOG_BURST_BYTES = 20_000_000
_LOG_BYTES_PER_S = 100_000


class ServerLog:
    """Log file that is cut in half when it is full."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._last_line = self._failure = self._refusal = ""
        self._allowed_bytes, self._counted_at_s = float(_LOG_BURST_BYTES), time.monotonic()

    def begin(self) -> None:
        """Record that the server is started."""
        self._last_line = self._failure = self._refusal = ""

    def fail(self, sentence: str) -> None:
        """Record that Kore could not start the server, or had to end it."""
        self._failure = sentence
        self.write(f"[{sentence}]\n".encode())

    def refuse(self, where: str, reason: str) -> None:
        """Record that the server may not reach a host."""
        self._refusal = self._refusal or f"Its access to {where} was refused ({reason})."
        self.write(f"[network: {where} refused, {reason}]\n".encode())

    def last_words(self) -> str:
        """Return the reason for the server's end: Kore's messages, then the server's last line."""
        output = f"Its last output was: {self._last_line}" if self._last_line else ""
        return " ".join(filter(None, (self._refusal, self._failure or output)))

    def take(self, data: bytes) -> bool:
        """Write the server's output; return False if it never stops."""
        now_s = time.monotonic()
        earned = (now_s - self._counted_at_s) * _LOG_BYTES_PER_S
        self._allowed_bytes = min(self._allowed_bytes + earned, _LOG_BURST_BYTES) - len(data)
        self._counted_at_s = now_s
        if self._allowed_bytes < 0:
            return False
        self.write(data)
        return True

    def write(self, data: bytes) -> None:
        """Write a message of Kore about the server."""
        path = self._folder() / "log"
        for line in data.decode("utf-8", "replace").splitlines():
            # Messages of Kore are in brackets.
            if line.strip() and not line.startswith("["):
                self._last_line = line.strip()
        with suppress(OSError):
            make_private_folder(path.parent)
            if path.exists() and path.stat().st_size > _LOG_FILE_BYTES:
                path.write_bytes(path.read_bytes()[-_LOG_FILE_BYTES // 2 :])
            with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
                file.write(data)


_STOP_TIMEOUT_S = 1.0
# A server may run for weeks, so it is checked less often than a command.
_POLL_INTERVAL_S = 5.0
# The limits of a command would cut a server off in the end. Each connection takes two descriptors,
# of which the usual limit is 1,024.
_NETWORK_LIMITS = ProxyLimits(
    max_concurrent=256,
    max_connections=sys.maxsize,
    max_refusals=sys.maxsize,
    max_bytes=sys.maxsize,
)
_MAX_NETWORK_ENTRIES = 100


class TooMuchOutput(Exception):
    """Server that never stops writing; the text is a sentence."""

    def __init__(self, text: str = "It sent more than Kore accepts at once.") -> None:
        super().__init__(text)


@frozen
class ServerCommand:
    """Command that starts a server.

    It works in `folder`, which it may change unless `read_only`. `identity` is the folder's
    identity, if known. `home` is its /tmp and HOME, and persists across starts. It can also read
    `shown_folders`, open the `added_folders`, which are real paths outside of `folder` with their
    identities, if known, and reach the entries of `network` (see `NetworkReach`). `reach` exists
    for tests: the addresses that `network` may lead to.
    """

    argv: tuple[str, ...]
    folder: Path
    home: Path
    shown_folders: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    network: tuple[str, ...] = ()
    read_only: bool = False
    reach: Mapping[str, Any] = field(default_factory=dict)
    identity: FolderIdentity | None = None
    added_folders: Mapping[FolderAccess, FolderIdentity | None] = field(default_factory=dict)


class ConfinedServer:
    """Server process and its input; all of its processes end with the `open` context.

    `title` describes it for people, such as "MCP server time". `find_command` returns the command,
    may block, and raises `ToolError`. `meters` limit its resource usage.
    """

    def __init__(
        self,
        title: str,
        find_command: Callable[[], ServerCommand],
        settings: ToolSettings,
        log: ServerLog,
        meters: ResourceLimits,
    ) -> None:
        self._title = title
        self._find_command = find_command
        self._settings = settings
        self._log = log
        self._meters = meters

    @asynccontextmanager
    async def open(
        self, on_output: Callable[[bytes], None], on_end: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[asyncio.StreamWriter]:
        """Yield its standard input.

        `on_output` receives its output, and may raise `TooMuchOutput`, which ends the server.
        `on_end` is awaited when it has ended.
        """
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
                except (TooMuchOutput, ToolError, OSError) as exc:
                    self._log.fail(str(exc))
                finally:
                    await on_end()

            task = asyncio.create_task(serve(), name=self._title)
            try:
                yield writer
            finally:
                # A server ends when its input is closed; give it a moment.
                writer.close()
                try:
                    await asyncio.wait({task}, timeout=_STOP_TIMEOUT_S)
                finally:
                    # Even if the caller is cancelled a second time.
                    task.cancel()
                await asyncio.wait({task})

    async def _run(self, stdin: int, on_output: Callable[[bytes], None]) -> Exit:
        command = await asyncio.to_thread(self._find_command)
        async with AsyncExitStack() as stack:
            proxy = None
            sandbox = self._settings.sandbox or Unconfined()
            grant = self._grant(command, sandbox)
            if grant is not None:
                record = _NetworkLog(self._log)
                proxy = await stack.enter_async_context(
                    EgressProxy.open(grant, record, record.report_failure)
                )
            if isinstance(sandbox, ShowsFolders):
                sandbox = sandbox.showing(command.shown_folders)
            job = await asyncio.to_thread(self._job, command, stdin, proxy)
            spawn = stack.enter_context(sandbox.prepare(job))
            failures: list[TooMuchOutput] = []
            running: asyncio.Task[Any] | None = None

            def guarded(take: Callable[[bytes], None], data: bytes) -> None:
                try:
                    take(data)
                except TooMuchOutput as exc:
                    failures.append(exc)
                    if running is not None:
                        running.cancel()

            meter = await stack.enter_async_context(self._meter(command, job.folder))
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

    def _grant(self, command: ServerCommand, sandbox: Sandbox) -> EgressGrant | None:
        """Return what a server in a sandbox may reach. Raises `ToolError`."""
        if not sandbox.confines or not command.network:
            return None
        try:
            reach = NetworkReach.parse(command.network)
        except ValueError as exc:
            raise ToolError(f"The {self._title}: `network`: {exc}") from exc
        if not sandbox.supports_egress:
            for place in (*reach.services, *reach.targets):
                raise ToolError(render_prompt("sandbox/no_targets", target=str(place)))
            return None
        limits = {"limits": _NETWORK_LIMITS, **command.reach}
        return EgressGrant(
            reach.hosts,
            services=reach.services,
            targets=reach.targets,
            own=self._settings.own_services,
            rule="network",
            **limits,
        )

    def _meter(
        self, command: ServerCommand, folder: Path
    ) -> AbstractAsyncContextManager[CommandMeter | None]:
        """Return a meter that ends the server when it exceeds its memory or fills the disk."""
        if (limits := self._settings.limits) is None:
            return nullcontext()
        changed = [access.path for access in command.added_folders if access.is_writable]
        folders = (command.home, *changed, *([] if command.read_only else [folder]))
        return self._meters.metered(
            CommandMeter(self._title, folders, limits, look_s=_POLL_INTERVAL_S)
        )

    def _on_log(self, data: bytes) -> None:
        if not self._log.take(data):
            raise TooMuchOutput("It wrote more to its log than Kore accepts.")

    def _job(self, command: ServerCommand, stdin: int, proxy: Any) -> SandboxCommand:
        for name in ("tmp", "shm", "work"):
            make_private_folder(command.home / name)
        program = command.argv[0]
        if "/" not in program and shutil.which(program) is None:
            raise ToolError(f"There is no program {program} on this machine.")
        for identity in (command.identity, *command.added_folders.values()):
            check_folder(identity)
        folder = command.identity.path if command.identity else command.folder.resolve()
        if not folder.is_dir():
            raise ToolError(f"The {self._title}: there is no folder {folder}.")
        is_confined = (self._settings.sandbox or Unconfined()).confines
        covered = self._restrictions(folder) if is_confined else MountRestrictions()
        return SandboxCommand(
            f"exec {shlex.join(command.argv)}",
            folder,
            folder,
            forbidden_paths=covered.forbidden_paths,
            locked_paths=covered.locked_paths,
            masked_paths=covered.masked_paths,
            read_only_paths=covered.read_only_paths,
            egress=proxy,
            stdin=stdin,
            read_only=command.read_only,
            temporary=command.home,
            variables=command.variables,
            identity=command.identity,
            folders=tuple(self._added_folders(command, folder)) if is_confined else (),
        )

    def _added_folders(self, command: ServerCommand, folder: Path) -> Iterator[AddedFolder]:
        """Yield the added folders with their cover. Raises `ToolError`."""
        for access in outermost(command.added_folders):
            path = access.path
            if folder.is_relative_to(path) and access.is_writable:
                text = f"The {self._title}: its folder {folder} is inside {path}; use {path} alone."
                raise ToolError(text)
            identity = command.added_folders[access] or FolderIdentity.of(path)
            try:
                cover = cover_added_folder(self._settings, path, self._call(folder))
            except OSError as exc:
                text = f"The {self._title} cannot open {path}: {exc.strerror}."
                raise ToolError(text) from exc
            if cover is None or private_place(path) is not None:
                reason = "it holds keys and logins" if cover is not None else "it is too large"
                raise ToolError(f"The {self._title} cannot open {path}: {reason}.")
            is_writable = access.is_writable and not cover.holds_own_files
            yield AddedFolder(identity, cover.masked_paths, is_writable, cover.read_only_paths)

    def _restrictions(self, folder: Path) -> MountRestrictions:
        """Return the mount restrictions of its folder."""
        return mount_restrictions(self._settings, self._call(folder))

    def _call(self, folder: Path) -> CallContext:
        """Return a call of the owner that has read strangers' words."""
        environment = ToolEnvironment(
            session=self._title,
            workspace=folder,
            memory=folder / "memory" / "MEMORY.md",
            owner=True,
        )
        return CallContext(
            ToolCall("", self._title, {}, "{}"),
            environment,
            lambda text, stream: None,
            taint=frozenset({"untrusted"}),
        )


class _NetworkLog:
    """Record of the hosts that a server did not reach, each once, in its log."""

    def __init__(self, log: ServerLog) -> None:
        self._log = log
        self._entries: set[tuple[str, str]] = set()

    async def __call__(self, where: str, allowed: bool, reason: str) -> None:
        if not allowed and self._add(where, reason):
            self._log.refuse(where, reason)

    def report_failure(self, where: str, reason: str) -> None:
        if self._add(where, reason):
            self._log.write(f"[network: {where} not reached, {reason}]\n".encode())

    def _add(self, where: str, reason: str) -> bool:
        """Return whether this is new, and one of the first."""
        is_new = (where, reason) not in self._entries and len(self._entries) < _MAX_NETWORK_ENTRIES
        if is_new:
            self._entries.add((where, reason))
        return is_new


def outermost(accesses: Iterable[FolderAccess]) -> Iterator[FolderAccess]:
    """Yield the accesses that no other access includes, outermost first."""
    ordered = sorted(accesses, key=lambda access: (len(access.path.parts), not access.is_writable))
    outer: list[FolderAccess] = []
    for access in ordered:
        if not any(other.covers(access) for other in outer):
            outer.append(access)
            yield access


async def _pipe_writer(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(fd, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


def _close_quietly(fd: int) -> None:
    with suppress(OSError):
        os.close(fd)


# Burst and sustained rate of a server's output: more is a flood.
MAX_AT_ONCE_BYTES = 64_000_000
MAX_BYTES_PER_S = 1_000_000
# A JSON value takes more time and memory than its few bytes suggest.
VALUE_BYTES = 64
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class OutputBudget:
    """Bytes that a server may still send; the budget refills over time."""

    def __init__(self) -> None:
        self._spent_bytes = 0.0
        self._taken_at = time.monotonic()

    def take(self, size_bytes: int) -> None:
        """Spend this number of bytes. Raises `TooMuchOutput`."""
        now = time.monotonic()
        left_bytes = self._spent_bytes - (now - self._taken_at) * MAX_BYTES_PER_S
        self._spent_bytes, self._taken_at = max(0.0, left_bytes), now
        if self._spent_bytes + size_bytes > MAX_AT_ONCE_BYTES:
            raise TooMuchOutput("It sends endless data.")
        self._spent_bytes += size_bytes

    def take_values(self, json: bytes) -> None:
        """Spend the weight of JSON values beyond their bytes, before decoding.

        Raises `TooMuchOutput`.
        """
        if (excess := _value_bytes(json) - len(json)) <= 0:
            return
        # Strings contain commas, too.
        if (excess := _value_bytes(_STRING.sub(b"", json)) - len(json)) > 0:
            self.take(excess)


def _value_bytes(json: bytes) -> int:
    return VALUE_BYTES * (json.count(b",") + json.count(b"[") + json.count(b"{"))
