"""A shell command in its sandbox: whom it may reach, and the marks that it leaves."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.filenames import normalize_filename
from agent.security.files.instruction_files import (
    CONFIGURATIONS,
    GIT,
    GIT_FILES,
    PROMPT_FILES,
    PROMPT_FOLDERS,
)
from agent.security.files.quarantine import CreatedFiles
from agent.security.files.write_clock import WriteClock
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.unconfined import Unconfined
from agent.security.taint.file_marks import TaintingCommand, mark_tainted
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.files.workspace_scope import OWN_FOLDER, OWNER_TASK_FILES, PRIVATE_NAMES
from agent.tools.shell.process_group import Exit, run
from agent.tools.shell.resource_limits import CommandMeter, ResourceLimits
from agent.types import Taint

if TYPE_CHECKING:
    from agent.security.network.egress_proxy import EgressProxy


LIMIT_ENTRIES = 1_000_000

TASK_FILES = frozenset(normalize_filename(name) for name in OWNER_TASK_FILES)

_PRIVATE = frozenset(normalize_filename(name) for name in (*PRIVATE_NAMES, OWN_FOLDER))

# Folders of others' packages: programs that install them rename what lies there, and one is
# never opened as a project. Only their own entries are looked at.
_PACKAGES = frozenset({"node_modules", "site-packages"})

# A folder with both is where git keeps its objects, whatever its name is.
_STORE = frozenset({"HEAD", "objects"})


@frozen
class MountRestrictions:
    """Real paths in the workspace that exist; see `Job`."""

    forbidden_paths: tuple[Path, ...] = ()
    masked_paths: tuple[Path, ...] = ()
    read_only_paths: tuple[Path, ...] = ()


def mount_restrictions(settings: ToolSettings, call: CallContext) -> MountRestrictions:
    """Kore's own files are closed to everybody, what others told Kore to all but the owner.

    Where anything is closed, git's stores are closed too: they keep older versions of it. What
    the system prompt is made of and what other programs run by themselves is frozen: file tools
    change it, and are judged for it. Blocked paths are covered at any depth; `.git` can be read.
    After strangers' words so is what later turns are told to do (HEARTBEAT.md, the checklist).
    A folder that Kore cannot look into is hidden. May block: it walks through the workspace. Raises
    `ToolError` where that holds more than `LIMIT_ENTRIES` entries: by a flood of files, a command
    could otherwise uncover what lies behind them.
    """
    root = call.workspace.resolve()
    closed = [Path(os.path.realpath(path)) for path in settings.off_limits]
    closed = [path for path in closed if path.is_relative_to(root) and os.path.lexists(path)]
    frozen = []
    task_files = TASK_FILES if "untrusted" in call.taint else frozenset[str]()
    for entry in os.scandir(root):
        name = normalize_filename(entry.name)
        if not call.owner and name in _PRIVATE:
            closed.append(root / entry.name)
        elif name in PROMPT_FILES or name in PROMPT_FOLDERS or name in task_files:
            frozen.append(root / entry.name)
    walk = _CoverWalk(root, settings.blocked_paths)
    covered = {*closed, *frozen}
    frozen += [path for path in walk.read_only_paths if path not in covered]
    if closed:
        closed += walk.stores
        frozen = [path for path in frozen if not any(map(path.is_relative_to, walk.stores))]
    closed, masked, frozen = (_real(root, paths) for paths in (closed, walk.masked_paths, frozen))
    hidden_paths = {*closed, *masked}

    def visible(paths: Sequence[Path]) -> tuple[Path, ...]:
        """Without what lies in something that is hidden as a whole."""
        return tuple(path for path in paths if hidden_paths.isdisjoint(path.parents))

    return MountRestrictions(visible(closed), visible(masked), visible(frozen))


def _real(root: Path, paths: Sequence[Path]) -> list[Path]:
    """What links lead to, each once; those to nothing that a command could get at are left out."""
    paths_found: dict[Path, None] = {}
    for path in paths:
        if path.is_symlink():
            path = Path(os.path.realpath(path))
            if not path.exists() or path == root or not path.is_relative_to(root):
                continue
        paths_found[path] = None
    return list(paths_found)


class _CoverWalk:
    """What is to be covered below a folder, the ways to it before what lies in it."""

    def __init__(self, root: Path, blocked: Sequence[str]) -> None:
        self.masked_paths: list[Path] = []
        self.read_only_paths: list[Path] = []
        self.stores: list[Path] = []
        self._blocked = [
            tuple(normalize_filename(part) for part in entry.split("/")) for entry in blocked
        ]
        self._lasts = {parts[-1] for parts in self._blocked}
        self._remaining = LIMIT_ENTRIES
        pending: deque[tuple[str, tuple[str, ...]]] = deque([(str(root), ())])
        while pending and self._remaining > 0:
            folder, above = pending.popleft()
            pending += self._visit(folder, above)
        if pending:
            raise ToolError(render_prompt("sandbox/too_large", limit=f"{LIMIT_ENTRIES:,}"))

    def _visit(self, folder: str, above: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Look at one folder; yields those in it that are to be looked at in turn."""
        try:
            entries = list(os.scandir(folder))
        except PermissionError:
            # A command could open it again.
            self.masked_paths.append(Path(folder))
            return
        except OSError:
            return
        self._remaining -= len(entries)
        if _STORE.issubset(entry.name for entry in entries):
            # Looked through all the same: a command can make any folder look like this.
            self._freeze_git(Path(folder))
            if above:
                self.stores.append(Path(folder))
        for entry in entries:
            name = _key(entry.name)
            parts = (*above, name)
            if above and above[-1] in _PACKAGES:
                if name in self._lasts and self._is_blocked(parts):
                    self.masked_paths.append(Path(entry.path))
            elif name == GIT:
                self._git(Path(entry.path))
            elif name in self._lasts and self._is_blocked(parts):
                self.masked_paths.append(Path(entry.path))
            else:
                if name in CONFIGURATIONS:
                    self.read_only_paths.append(Path(entry.path))
                if entry.is_dir(follow_symlinks=False):
                    yield entry.path, parts

    def _git(self, path: Path) -> None:
        self.stores.append(path)
        if self._is_blocked((GIT,)):
            self.read_only_paths.append(path)
        elif path.is_dir() and not path.is_symlink():
            self._freeze_git(path)

    def _freeze_git(self, store: Path) -> None:
        inside = (store / name for name in sorted(GIT_FILES))
        self.read_only_paths += [each for each in inside if os.path.lexists(each)]

    def _is_blocked(self, parts: tuple[str, ...]) -> bool:
        return any(parts[-len(entry) :] == entry for entry in self._blocked)


def _key(name: str) -> str:
    """`normalize_filename`, quickly for ordinary names."""
    if name.isascii() and ":" not in name and name[-1] not in " .":
        return name.lower()
    return normalize_filename(name)


_MOST_REFUSALS = 3


@frozen
class CommandLine:
    """A shell command, the real folder where it runs, and the call that wants it.

    One in the background reaches no host, and reads what is written to `stdin`. One that is
    `read_only` was judged to look, and gets a workspace that it cannot change.
    """

    command: str
    folder: Path
    call: CallContext
    background: bool = False
    stdin: int | None = None
    read_only: bool = False

    def is_exposed(self) -> bool:
        """Whether it may know strangers' words: from the model, or from a file."""
        return "untrusted" in self.call.taint or self.call.origin.is_untrusted(self.call.workspace)

    def marked_places(self) -> tuple[Path, ...]:
        """Where what it changes has to be marked: all of an own workspace, and of a stranger's the
        own folders in it; elsewhere all is untrusted by where it is."""
        origin, workspace = self.call.origin, self.call.workspace.resolve()
        if self.read_only:
            return ()
        if origin.is_own(workspace):
            return (workspace,)
        return tuple(place for place in origin.own if place.is_relative_to(workspace))

    def contents(self) -> str | None:
        """A hash of the scripts that it runs. May block."""
        from agent.security.shell.script_contents import contents_digest

        return contents_digest(self.command, self.folder, self.call.workspace.resolve())

    def only_reads(self) -> bool:
        """Whether it counts as looking: a judgement, which may be wrong."""
        from agent.security.shell.classifier import only_reads

        return only_reads(self.command, self.folder, self.call.workspace.resolve())


@frozen
class CommandResult:
    """How a command ended; `refusals` names the hosts that it was kept from, one line for each, a
    few at most; `quarantine_report` the files of its making that were set aside."""

    exit: Exit
    has_reached_host: bool
    refusals: str
    quarantine_report: str = ""


class SandboxedCommands:
    """Runs commands as the settings want it."""

    def __init__(
        self,
        settings: ToolSettings,
        reach: Mapping[str, Any] | None = None,
        meters: ResourceLimits | None = None,
    ) -> None:
        self._settings = settings
        self._meters = meters or ResourceLimits()
        self._reach = reach or {}
        self._sandbox = settings.sandbox or Unconfined()

    @property
    def confines(self) -> bool:
        return self._sandbox.confines

    def is_read_only(self, line: CommandLine) -> bool:
        """Whether it looks, and can be held to it: without a sandbox nothing can be."""
        return self.confines and line.only_reads()

    async def run(
        self, line: CommandLine, timeout_s: float | None, on_output: Callable[[bytes], None]
    ) -> CommandResult:
        """Run it to its end. Raises `ToolError` when it cannot be started."""
        places = line.marked_places()
        tainting = TaintingCommand(*places) if places else None
        if tainting is not None:
            tainting.start()
            if line.is_exposed():
                tainting.begin()
        created_files = CreatedFiles(line.call.workspace, TASK_FILES)
        created_files.begin()
        try:
            async with self._proxy(line, tainting) as proxy:
                job = await asyncio.to_thread(self._job, line, proxy)
                with self._sandbox.prepare(job) as spawn:
                    async with self._meter(line, tainting) as meter:
                        end = await run(spawn, timeout_s, on_output, meter)
        except OSError as exc:
            reason = (exc.strerror or type(exc).__name__).lower()
            raise ToolError(f"The command could not be started: {reason}.") from exc
        finally:
            # By now it may have written down what was heard, or copied a file that holds it.
            is_exposed = line.is_exposed() or (tainting is not None and tainting.is_exposed)
            try:
                if tainting is not None:
                    await asyncio.to_thread(tainting.end, is_exposed=is_exposed)
            finally:
                is_exposed = is_exposed and not line.read_only
                moved = await asyncio.to_thread(created_files.end, is_exposed=is_exposed)
        return CommandResult(
            end,
            bool(proxy and proxy.session.reached_hosts),
            _describe_refusals(proxy),
            _describe_moves(moved),
        )

    def _meter(
        self, line: CommandLine, tainting: TaintingCommand | None
    ) -> AbstractAsyncContextManager[CommandMeter | None]:
        if (limits := self._settings.limits) is None:
            return nullcontext()
        call = line.call
        return self._meters.metered(
            CommandMeter(
                call.session,
                call.workspace,
                limits,
                can_write=not line.read_only,
                clock=tainting.since if tainting is not None else WriteClock(),
            )
        )

    def hosts(self, line: CommandLine) -> tuple[str, ...]:
        """The hosts it may reach: any without a sandbox; in one, none from the background and none
        when it only reads the workspace."""
        if not self.confines:
            return ("anywhere",)
        hosts = self._settings.exec_hosts
        if not hosts or line.background or line.read_only:
            return ()
        from agent.security.network.hosts import shared_hosts

        return shared_hosts(hosts, ("*",) if line.call.hosts is None else line.call.hosts)

    def taint(self, line: CommandLine) -> frozenset[Taint]:
        """Which files and hosts a command has read is unknown."""
        if line.call.origin.is_untrusted(line.call.workspace):
            return UNTRUSTED
        return NOTHING if self.confines or line.only_reads() else UNTRUSTED

    @asynccontextmanager
    async def _proxy(
        self, line: CommandLine, tainting: TaintingCommand | None
    ) -> AsyncIterator["EgressProxy | None"]:
        """The way out of a command in a sandbox, or None when there is to be none."""
        hosts = self.hosts(line) if self.confines else ()
        if not hosts:
            yield None
            return
        from agent.security.network.egress_proxy import EgressProxy
        from agent.security.network.proxy_connection import EgressGrant

        call = line.call

        async def record(where: str, allowed: bool, reason: str) -> None:
            if allowed and tainting is not None:
                # Which of its files a later command reads is unknown.
                mark_tainted(call.workspace, call.workspace)
                tainting.begin()
            await call.record(allowed, reason, {"host": where})

        async with EgressProxy.open(EgressGrant(hosts, **self._reach), record) as proxy:
            yield proxy

    def _job(self, line: CommandLine, proxy: "EgressProxy | None") -> SandboxCommand:
        workspace = line.call.workspace.resolve()
        if self.confines and not line.folder.is_relative_to(workspace):
            raise ToolError(f"Commands can only run inside the workspace: {workspace}.")
        covered = (
            mount_restrictions(self._settings, line.call) if self.confines else MountRestrictions()
        )
        return SandboxCommand(
            line.command,
            line.folder,
            workspace,
            covered.forbidden_paths,
            covered.masked_paths,
            covered.read_only_paths,
            proxy,
            line.stdin,
            line.read_only,
        )


def _describe_refusals(proxy: "EgressProxy | None") -> str:
    refusals = list(proxy.session.reason_by_refused_host.items())[:_MOST_REFUSALS] if proxy else []
    return "".join(
        render_prompt("sandbox/host_refused", where=where, reason=reason) + "\n"
        for where, reason in refusals
    )


def _describe_moves(names: Sequence[tuple[str, str]]) -> str:
    return "".join(
        render_prompt("sandbox/set_aside", old=old, new=new) + "\n" for old, new in names
    )
