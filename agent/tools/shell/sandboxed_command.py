"""Run shell commands in the sandbox, with network rules and taint tracking."""

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen, stable_repr
from agent.security.files.folder_identity import FolderIdentity
from agent.security.files.git_layout import find_outer_store
from agent.security.files.private_places import private_place
from agent.security.local_services import LocalService, split_services
from agent.security.network.egress_proxy import EgressProxy
from agent.security.network.proxy_connection import EgressGrant
from agent.security.network.urls import shared_hosts
from agent.security.policy.call_effects import possible_folders
from agent.security.policy.roles import ANY, in_hosts
from agent.security.sandbox.base import (
    AddedFolder,
    KeepsHome,
    Sandbox,
    SandboxCommand,
    SharesNetwork,
    ShowsFolders,
)
from agent.security.sandbox.command_report import CommandReport, ReportPipe, distinct_names
from agent.security.sandbox.git_defaults import read_git_defaults
from agent.security.sandbox.unconfined import Unconfined
from agent.security.shell.classifier import only_reads
from agent.security.shell.command_prefix import prefixes_of
from agent.security.shell.deletions import deletion_targets, may_delete
from agent.security.shell.parser import parse_script
from agent.security.shell.path_scope import NO_SANDBOX, SandboxScope
from agent.security.shell.script_contents import script_contents
from agent.security.taint.command_marks import TaintingCommand, WriteClock
from agent.security.taint.file_marks import mark_tainted
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.repositories.store_files import HistoryCache
from agent.tools.shell.change_guards import ChangedFolder, ChangeGuards, FindStores
from agent.tools.shell.home_settings import (
    HomeSettings,
    answered_digest,
    home_settings,
    record_allowed_changes,
)
from agent.tools.shell.mount_restrictions import (
    MountRestrictions,
    cover_added_folder,
    find_git_stores,
    mount_restrictions,
)
from agent.tools.shell.process_group import Exit, run
from agent.tools.shell.process_registry import ProcessRegistry
from agent.tools.shell.resource_limits import CommandMeter
from agent.tools.shell.session_space import CommandCount
from agent.tools.shell.shared_files import SandboxFiles
from agent.types import Taint

if TYPE_CHECKING:
    from agent.approvals import CommandPrefix
    from agent.security.sandbox.session_network import SessionNetwork
    from agent.security.shell.deletions import DeletionTargets
    from agent.security.shell.script_contents import ScriptContents


log = logging.getLogger(__name__)

_MAX_REFUSALS = 3
_MAX_KEPT_HOMES = 64


@frozen
class CommandLine:
    """Shell command, the real folder where it runs, and its call.

    A `background` command reads the data written to `stdin`. `terminal` is the terminal of a person
    who types (`SandboxCommand`); `is_typed`: a person typed the command. A command that was judged
    to be read-only (`read_only`) gets a read-only workspace, as does a command whose call may not
    write. With an `outside_reason` it runs without the sandbox, and with a `network` it also
    reaches these hosts: a person has agreed. `services` are the local services of its `network`.
    """

    command: str
    folder: Path
    call: CallContext
    background: bool = False
    stdin: int | None = None
    read_only: bool = False
    outside_reason: str | None = None
    network: tuple[str, ...] = ()
    services: tuple[LocalService, ...] = ()
    terminal: int | None = None
    is_typed: bool = False

    def is_exposed(self) -> bool:
        """Return whether it may know strangers' words, from the model or from a file."""
        call = self.call
        is_tainted = "untrusted" in call.taint or call.origin.is_untrusted(call.workspace)
        return is_tainted or self.may_read_strangers_folder()

    def may_read_strangers_folder(self) -> bool:
        """Return whether it may read an added folder that is not trusted.

        A line that only reads what it names in the workspace does not.
        """
        folders = self.call.environment.folders
        untrusted = any(self.call.origin.is_untrusted(folder.path) for folder in folders)
        return untrusted and not self.only_reads()

    @property
    def is_frozen(self) -> bool:
        """True if the workspace is read-only for it, provided that a sandbox confines it."""
        return self.read_only or not self.call.may_write

    def marked_places(self, added: Iterable[Path]) -> tuple[Path, ...]:
        """Return the places where its changes must be marked, also in `added` folders.

        These are the owner's folders, including those inside a stranger's folder; other places are
        untrusted because of their location.
        """
        if self.is_frozen:
            return ()
        own = self.call.origin.own
        return tuple(
            place
            for folder in (self.call.workspace, *added)
            for place in ((folder,) if self.call.origin.is_own(folder) else own)
            if place.is_relative_to(folder)
        )

    def deleted_paths(self) -> tuple[Path, ...]:
        """Return the paths that it deletes by name."""
        targets = self.deletion_targets()
        return () if targets is None else tuple(targets.paths)

    def contents(self) -> "ScriptContents":
        """Return the files that it runs. May block."""
        return script_contents(self.command, self.folder, self.call.workspace)

    def deletion_targets(self) -> "DeletionTargets | None":
        """Return the paths that it deletes. May block."""
        if not may_delete(self.command):
            return None
        script, root = parse_script(self.command), self.call.workspace
        return deletion_targets(script, possible_folders(script, self.folder), root)

    def only_reads(self) -> bool:
        """Return whether it was judged to be read-only, which may be wrong."""
        return only_reads(self.command, self.folder, self.call.workspace)


@frozen
class CommandResult:
    """Result of a command.

    `refusals` names hosts denied to it, one per line, at most a few. `report` names files that were
    set aside, and repositories that were restored or not protected; `facts` are measurements of the
    sandbox.
    """

    exit: Exit
    has_reached_host: bool
    refusals: str
    report: str = ""
    facts: CommandReport = field(default_factory=CommandReport)


class SandboxedCommands:
    """Runner of commands according to the settings."""

    def __init__(
        self,
        settings: ToolSettings,
        reach: Mapping[str, Any] | None = None,
        processes: ProcessRegistry | None = None,
    ) -> None:
        self._settings = settings
        processes = processes or ProcessRegistry()
        self._meters, self._spaces = processes.meters, processes.spaces
        self._reach = reach or {}
        self._read_history = HistoryCache()
        self._homes: dict[str, tuple[CommandCount, HomeSettings]] = {}
        self._homes_lock = Lock()
        self._sandbox = settings.sandbox or Unconfined()

    @property
    def confines(self) -> bool:
        return self._sandbox.confines

    @property
    def sandbox_name(self) -> str:
        return self._sandbox.name

    def readable(self, line: CommandLine) -> tuple[Path, ...]:
        """Return the files and folders that this confined command can read and run from."""
        if isinstance(self._sandbox, ShowsFolders):
            added = (folder.path for folder in line.call.environment.folders)
            return (line.call.workspace, *self._sandbox.readable_programs, *added)
        return (Path("/"),)

    def readable_files(self, call: CallContext) -> tuple[Path, ...]:
        """Return the real files and folders outside the workspace that every command can read."""
        if isinstance(self._sandbox, ShowsFolders):
            return self._sandbox.readable_files(call.workspace)
        return ()

    def shared_files(self, call: CallContext) -> SandboxFiles | None:
        """Return the files that commands of this conversation share.

        None without a sandbox, where a command reads nothing without asking.
        """
        if not self.confines:
            return None
        return SandboxFiles(self._sandbox, self._spaces, call.session, call.workspace)

    def holds(self, line: CommandLine) -> bool:
        """Return whether a sandbox confines this command."""
        return self.confines and line.outside_reason is None

    def prefixes(self, line: CommandLine) -> "tuple[CommandPrefix, ...]":
        """Return the parts of a command that a person may allow with any arguments.

        There are none if it leaves the sandbox or runs in the background. May block.
        """
        if line.background or line.outside_reason is not None:
            return ()
        is_confined = self.holds(line)
        return prefixes_of(line.command, line.folder, line.call.workspace, is_confined=is_confined)

    def home(self, line: CommandLine) -> HomeSettings:
        """Return the files that earlier commands left in this command's home.

        Its digest is the digest that answers are bound to. May block.
        """
        home = self._scan_home(line)
        folder = self._spaces.existing_folder(line.call.session)
        return home if folder is None else replace(home, digest=answered_digest(folder, home))

    def _scan_home(self, line: CommandLine) -> HomeSettings:
        """Return the files in the home, scanned once between two commands of the session."""
        session = line.call.session
        folder = self._spaces.existing_folder(session)
        if folder is None or not self.holds(line) or not isinstance(self._sandbox, KeepsHome):
            return HomeSettings()
        count = self._spaces.quiet_count(session)
        with self._homes_lock:
            earlier_count, home = self._homes.pop(session, (None, HomeSettings()))
        if count is None or count != earlier_count:
            home = home_settings(*self._sandbox.home(folder))
        if count is not None:
            with self._homes_lock:
                self._homes[session] = (count, home)
                if len(self._homes) > _MAX_KEPT_HOMES:
                    del self._homes[next(iter(self._homes))]
        return home

    def confinement(self, line: CommandLine, home: HomeSettings) -> str:
        """Return a description of the command's confinement and of the files in its home.

        An answer about this confinement applies to no other confinement.
        """
        if not self.holds(line):
            return "none"
        settings = self._settings
        paths = (settings.blocked_paths, settings.off_limits, settings.fixed_files)
        variables = sorted(settings.exec_env.items())
        added = sorted(
            f"{folder.path} {'changes' if folder.is_writable else 'reads'}"
            for folder in line.call.environment.folders
        )
        # Only when present, so that earlier answers keep their hash.
        reach = (self._sandbox, settings.limits, *paths, *variables, *([added] if added else []))
        digest = hashlib.sha256(stable_repr(reach).encode()).hexdigest()
        parts = [self.sandbox_name, digest, *(["read-only"] if line.is_frozen else [])]
        parts += sorted(self._settled_hosts(line))
        return " ".join([*parts, *([f"home={home.digest}"] if home.digest else [])])

    def is_read_only(self, line: CommandLine) -> bool:
        """Return whether it is read-only and the sandbox enforces this."""
        return self.holds(line) and not line.network and line.only_reads()

    async def run(
        self, line: CommandLine, timeout_s: float | None, on_output: Callable[[bytes], None]
    ) -> CommandResult:
        """Run the command to its end. Raises `ToolError` if it cannot be started."""
        async with self._allowed_changes(line):
            return await self._run(line, timeout_s, on_output)

    @asynccontextmanager
    async def _allowed_changes(self, line: CommandLine) -> AsyncIterator[None]:
        """Record changes to the home of a command that a person has allowed.

        Changes are recorded only if no other command runs meanwhile. Raises `ToolError`.
        """
        spaces, session, is_held = self._spaces, line.call.session, self.holds(line)
        count: CommandCount | None = None
        before = HomeSettings()
        with ExitStack() as stack:
            try:
                if is_held and line.call.is_allowed:
                    await asyncio.to_thread(spaces.folder, session)
                    count = await asyncio.to_thread(spaces.quiet_count, session)
                    before = await asyncio.to_thread(self._scan_home, line)
                stack.enter_context(spaces.command(session, creates_space=is_held))
            except OSError as exc:
                raise _not_started(exc) from exc
            yield
        if count is not None:
            await asyncio.to_thread(self._record_changes, line, count.next(), before)

    def _record_changes(self, line: CommandLine, count: CommandCount, before: HomeSettings) -> None:
        spaces, session = self._spaces, line.call.session
        if spaces.quiet_count(session) != count:
            return
        after = self._scan_home(line)
        folder = spaces.existing_folder(session)
        if folder is not None and spaces.quiet_count(session) == count:
            record_allowed_changes(folder, before, after)

    async def _run(
        self, line: CommandLine, timeout_s: float | None, on_output: Callable[[bytes], None]
    ) -> CommandResult:
        added = await asyncio.to_thread(self._added_folders, line)
        guards = ChangeGuards(_changed_folders(line, added), self._read_history)
        guards.begin()
        places = line.marked_places(_writable_stores(added))
        tainting = TaintingCommand(*places) if places else None
        if tainting is not None:
            tainting.start()
            if line.is_exposed():
                tainting.begin()
        try:
            async with self._proxy(line, tainting) as proxy:
                covered = await asyncio.to_thread(self._restrictions, line)
                stores = {line.call.workspace: covered.git_stores, **_writable_stores(added)}
                outer = {line.call.workspace: covered.all_git_stores}
                guards.record_stores({**stores, **outer})
                await asyncio.to_thread(self._protect_history, line, guards, stores)
                job = await asyncio.to_thread(self._job, line, proxy, covered, added)
                shared = None if job.network is None else job.network.holder
                with ReportPipe(shared) as pipe:
                    if line.terminal is None:
                        job = replace(job, report=pipe)
                    with self._sandbox_of(line).prepare(job) as spawn:
                        async with self._meter(line, tainting, added) as meter:
                            end = await run(
                                *(spawn, timeout_s, on_output, meter),
                                on_timeout=pipe.count_attempts if self.holds(line) else None,
                            )
                    facts = await asyncio.to_thread(pipe.read)
        except OSError as exc:
            raise _not_started(exc) from exc
        finally:
            # A second cancellation ends each of these waits.
            try:
                restored = await asyncio.to_thread(guards.restore)
            finally:
                # The command may already have stored untrusted output, or copied a file that
                # contains it.
                is_exposed = line.is_exposed() or (tainting is not None and tainting.is_exposed)
                try:
                    if tainting is not None:
                        await asyncio.to_thread(tainting.end, is_exposed=is_exposed)
                finally:
                    is_exposed = (
                        is_exposed and not line.is_frozen and not self._settings.full_access
                    )
                    moved = await asyncio.to_thread(
                        guards.set_aside, is_exposed=is_exposed, is_confined=self.holds(line)
                    )
        return CommandResult(
            end,
            bool(proxy and proxy.session.reached_hosts),
            _describe_refusals(proxy),
            _describe_moves(moved)
            + _describe_histories("history_kept", restored)
            + _describe_histories("history_unprotected", guards.unprotected),
            replace(
                facts, left_processes=facts.left_processes or distinct_names(end.left_processes)
            ),
        )

    def _protect_history(
        self, line: CommandLine, guards: ChangeGuards, stores: Mapping[Path, Sequence[Path]]
    ) -> None:
        """Protect repositories that the command does not delete by name.

        A person was asked about the repositories that it names.
        """
        if self._may_lose_history(line):
            find = {folder: partial(tuple, within) for folder, within in stores.items()}
            guards.hold_history(find, line.deleted_paths())

    def _may_lose_history(self, line: CommandLine) -> bool:
        """Return whether it may delete something that no person named."""
        is_typed = line.is_typed or line.terminal is not None
        return not line.is_frozen and not is_typed and not self._settings.full_access

    def unprotected_history(self, line: CommandLine) -> tuple[str, ...]:
        """Return the repositories whose history cannot be protected from this command.

        May block.
        """
        if not self._may_lose_history(line):
            return ()
        folders = _changed_folders(line, self._added_folders(line))
        guards = ChangeGuards(folders, self._read_history)
        find: dict[Path, FindStores] = {
            folder.path: partial(find_git_stores, folder.path) if self.holds(line) else tuple
            for folder in folders
        }
        try:
            guards.hold_history(find, line.deleted_paths())
        finally:
            guards.restore(is_restored=False)
        return tuple(guards.unprotected)

    def _written_folders(
        self, line: CommandLine, added: "Sequence[_ShownFolder]"
    ) -> tuple[Path, ...]:
        folders = () if line.is_frozen else (line.call.workspace, *_writable_stores(added))
        return (*folders, self._spaces.folder(line.call.session)) if self.holds(line) else folders

    def changeable_folders(self, call: CallContext) -> tuple[Path, ...]:
        """Return the real folders of the machine that tools of this conversation can change.

        May block.
        """
        added = [access.path for access in call.folders if access.is_writable]
        return (
            *self._changed_elsewhere(call),
            *(Path(os.path.realpath(folder)) for folder in added),
        )

    def _meter(
        self,
        line: CommandLine,
        tainting: TaintingCommand | None,
        added: "Sequence[_ShownFolder]",
    ) -> AbstractAsyncContextManager[CommandMeter | None]:
        if (limits := self._settings.limits) is None:
            return nullcontext()
        call = line.call
        return self._meters.metered(
            CommandMeter(
                call.session,
                self._written_folders(line, added),
                limits,
                clock=tainting.since if tainting is not None else WriteClock(),
            )
        )

    def _sandbox_of(self, line: CommandLine) -> Sandbox:
        return self._sandbox if line.outside_reason is None else Unconfined()

    def hosts(self, line: CommandLine) -> tuple[str, ...]:
        """Return the hosts that it may reach: any without a sandbox.

        Local services count as hosts. In a sandbox, a read-only command reaches none, and a
        background command only services through which no data leaves.
        """
        if not self.holds(line):
            return ("anywhere",)
        if line.read_only:
            return ()
        if line.background:
            services = split_services((*self._settled_services(line), *line.network))[1]
            names = (str(service) for service in services if not service.is_engine)
            return tuple(dict.fromkeys(names))
        return tuple(dict.fromkeys([*self._settled_hosts(line), *line.network]))

    def reaches_hosts(self, line: CommandLine) -> bool:
        """Return whether it may reach more than local services."""
        return bool(split_services(self.hosts(line))[0])

    def unsettled_hosts(self, line: CommandLine) -> tuple[str, ...]:
        """Return the hosts of its `network` that the settings do not allow anyway."""
        if not line.network or not self.holds(line):
            return ()
        settled = self._settled_hosts(line)
        return tuple(host for host in line.network if not in_hosts(host, settled))

    def _settled_hosts(self, line: CommandLine) -> tuple[str, ...]:
        """Return the hosts and local services that the settings and the policy let every command
        reach."""
        settings, role = self._settings, line.call.hosts
        hosts = shared_hosts(settings.exec_hosts, ("*",) if role is None else role)
        return (*hosts, *self._settled_services(line))

    def _settled_services(self, line: CommandLine) -> tuple[str, ...]:
        """Return the local services of the settings that every command may reach.

        They belong to the owner, so in other conversations a role must name them.
        """
        services = map(str, split_services(self._settings.exec_local)[1])
        role = line.call.hosts
        if line.call.owner:
            return tuple(name for name in services if role is None or in_hosts(name, role))
        role_hosts = tuple(name for name in role or () if name != ANY)
        return tuple(name for name in services if in_hosts(name, role_hosts))

    def taint(self, line: CommandLine) -> frozenset[Taint]:
        """Return the taint of its output: the files and hosts that it has read are unknown."""
        if line.call.origin.is_untrusted(line.call.workspace):
            return UNTRUSTED
        if line.may_read_strangers_folder():
            return UNTRUSTED
        return NOTHING if self.holds(line) or line.only_reads() else UNTRUSTED

    @asynccontextmanager
    async def _proxy(
        self, line: CommandLine, tainting: TaintingCommand | None
    ) -> AsyncIterator["EgressProxy | None"]:
        """Yield the egress proxy of a command in a sandbox, or None without network access."""
        reachable = self.hosts(line) if self.holds(line) else ()
        if not reachable:
            yield None
            return
        hosts, services = split_services(reachable)
        # These identify the sockets themselves; services in the settings only have paths.
        judged = {service: service for service in line.services}
        services = tuple(judged.get(service, service) for service in services)
        call = line.call

        async def record(where: str, allowed: bool, reason: str) -> None:
            if allowed and tainting is not None:
                # The files that a later command reads are unknown.
                mark_tainted(call.workspace, call.workspace)
                tainting.begin()
            await call.record(allowed, reason, {"host": where})

        grant = EgressGrant(
            hosts, services=services, own=self._settings.own_services, **self._reach
        )
        async with EgressProxy.open(grant, record) as proxy:
            yield proxy

    def _restrictions(self, line: CommandLine) -> MountRestrictions:
        workspace = line.call.workspace
        if self.holds(line) and not line.folder.is_relative_to(workspace):
            raise ToolError(f"Commands can only run inside the workspace: {workspace}.")
        if not self.holds(line):
            return MountRestrictions()
        return mount_restrictions(self._settings, line.call)

    def _job(
        self,
        line: CommandLine,
        proxy: "EgressProxy | None",
        covered: MountRestrictions,
        added: "Sequence[_ShownFolder]",
    ) -> SandboxCommand:
        workspace = line.call.workspace
        is_own = line.call.origin.is_own(workspace)
        return SandboxCommand(
            line.command,
            line.folder,
            line.call.workspace,
            forbidden_paths=covered.forbidden_paths,
            locked_paths=covered.locked_paths,
            masked_paths=covered.masked_paths,
            read_only_paths=covered.read_only_paths,
            store=covered.outer_store,
            egress=proxy,
            stdin=line.stdin,
            read_only=line.is_frozen,
            temporary=self._spaces.folder(line.call.session) if self.holds(line) else None,
            network=self._network(line),
            variables=self._settings.exec_env,
            terminal=line.terminal,
            identity=line.call.environment.identity,
            git_defaults=read_git_defaults(workspace if is_own else None),
            folders=tuple(exposed_folder.folder for exposed_folder in added),
        )

    def _added_folders(self, line: CommandLine) -> "tuple[_ShownFolder, ...]":
        """Return the folders that a person has added and that commands may see.

        May block.
        """
        if not self.holds(line):
            return ()
        call = line.call
        readable = self.readable_files(call)
        fixed = self._changed_elsewhere(call)
        added: dict[Path, _ShownFolder] = {}
        # Of two accesses to the same folder, the access for changes counts.
        for access in sorted(call.environment.folders, key=lambda access: access.is_writable):
            path = access.path
            if any(map(path.is_relative_to, (call.workspace, *readable))):
                continue
            with suppress(ToolError, OSError):
                identity = FolderIdentity.of(path)
                cover = cover_added_folder(self._settings, path, call)
                if cover is None or private_place(path) is not None:
                    continue
                is_writable = access.is_writable and call.owner and not line.is_frozen
                # Two different rules would protect its parts.
                is_apart = not any(
                    place.is_relative_to(path) or path.is_relative_to(place) for place in fixed
                )
                is_writable = is_writable and is_apart and not cover.holds_own_files
                folder = AddedFolder(
                    identity, cover.masked_paths, is_writable, cover.read_only_paths
                )
                added[path] = _ShownFolder(folder, cover.git_stores)
        return tuple(
            each
            for path, each in added.items()
            if not any(
                outer.folder.is_writable and outer.folder.path in path.parents
                for outer in added.values()
            )
        )

    def _changed_elsewhere(self, call: CallContext) -> list[Path]:
        """Return the places that commands change apart from the added folders. May block."""
        store = find_outer_store(call.workspace) if call.owner else None
        space = self._spaces.existing_folder(call.session)
        folders = [call.workspace, *([] if space is None else [space])]
        folders += [] if store is None else [store.common, store.own]
        return [Path(os.path.realpath(folder)) for folder in folders]

    def _network(self, line: CommandLine) -> "SessionNetwork | None":
        """Return the conversation's network, which exists once a background command runs in it.

        A command with approved access to a local service has its own network, because other
        commands could reach the service in a shared network.
        """
        session = line.call.session
        if not self.holds(line) or split_services(self.unsettled_hosts(line))[1]:
            return None
        if line.background and isinstance(self._sandbox, SharesNetwork):
            try:
                self._spaces.open_network(session, self._sandbox)
            except OSError as exc:
                # The command runs anyway, but other commands cannot reach its services.
                log.warning("%s; each command has its own network", exc)
        return self._spaces.network(session)

    def sandbox_scope(self, line: CommandLine) -> SandboxScope:
        """Return the private parts of the conversation's sandbox. May block."""
        if not self.holds(line):
            return NO_SANDBOX
        services = split_services(self.hosts(line))[1]
        disposable = split_services(self._settings.exec_disposable)[1]
        files = self.shared_files(line.call)
        temporary = None if files is None else files.temporary()
        added = (
            [] if line.is_frozen else [access for access in line.call.folders if access.is_writable]
        )
        return SandboxScope(
            folders=tuple(str(folder.path) for folder in added),
            has_own_network=isinstance(self._sandbox, SharesNetwork),
            service_ports=frozenset(service.port for service in services if service.port),
            lasting_services=tuple(
                str(service) for service in services if service not in disposable
            ),
            temporary=None if temporary is None else str(temporary.command_path),
            programs=self._program_folders(),
        )

    def _program_folders(self) -> tuple[str, ...]:
        """Return the folders of programs that commands see outside of the workspace."""
        if not isinstance(self._sandbox, ShowsFolders):
            return ()
        return tuple(map(str, self._sandbox.readable_programs))

    def shares_network(self, session: str) -> bool:
        """Return whether the session's commands reach each other at 127.0.0.1. May block."""
        return not self.confines or self._spaces.network(session) is not None


def _not_started(exc: OSError) -> ToolError:
    reason = (exc.strerror or type(exc).__name__).lower()
    return ToolError(f"The command could not be started: {reason}.")


def _describe_refusals(proxy: "EgressProxy | None") -> str:
    refusals = list(proxy.session.reason_by_refused_host.items())[:_MAX_REFUSALS] if proxy else []
    return "".join(
        render_prompt("sandbox/host_refused", where=where, reason=reason) + "\n"
        for where, reason in refusals
    )


@frozen
class _ShownFolder:
    """Added folder, and the git stores in it (see `MountRestrictions`)."""

    folder: AddedFolder
    git_stores: tuple[Path, ...]


def _writable_stores(added: Sequence[_ShownFolder]) -> dict[Path, tuple[Path, ...]]:
    """Return the folders that a command may change, with the git stores in each."""
    return {
        exposed_folder.folder.path: exposed_folder.git_stores
        for exposed_folder in added
        if exposed_folder.folder.is_writable
    }


def _changed_folders(line: CommandLine, added: Sequence[_ShownFolder]) -> list[ChangedFolder]:
    """Return the workspace and the added folders that a command may change."""
    folders = [
        exposed_folder.folder for exposed_folder in added if exposed_folder.folder.is_writable
    ]
    return [
        ChangedFolder(line.call.workspace, line.call.environment.identity),
        *(ChangedFolder(folder.path, folder.identity) for folder in folders),
    ]


def _describe_histories(prompt: str, names: Sequence[str]) -> str:
    return "".join(render_prompt(f"sandbox/{prompt}", repository=name) + "\n" for name in names)


def _describe_moves(names: Sequence[tuple[str, str]]) -> str:
    return "".join(
        render_prompt("sandbox/set_aside", old=old, new=new) + "\n" for old, new in names
    )
