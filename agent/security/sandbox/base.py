"""Port for sandboxes: commands, limits and process specifications."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agent.errors import ToolError
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity, open_folder
from agent.security.files.reading_rights import ReadingRights
from agent.security.local_services import LocalService
from agent.security.sandbox.command_report import ReportPipe
from agent.security.sandbox.git_defaults import GitDefaults

if TYPE_CHECKING:
    from agent.security.sandbox.session_network import SessionNetwork


@frozen
class Limits:
    """Limits for one command: processes, bytes per file, memory per process, size of the private
    /tmp, and processor time per process.

    `session_bytes` limits the total memory of a session's commands, `disk_bytes` the growth of a
    command's workspace, and `free_bytes` is the disk space that must stay free.
    """

    processes: int = 256
    file_bytes: int = 1_000_000_000
    memory_bytes: int = 4_000_000_000
    open_files: int = 1024
    cpu_s: int = 3600
    session_bytes: int = 8_000_000_000
    disk_bytes: int = 10_000_000_000
    free_bytes: int = 500_000_000


class EgressChannel(Protocol):
    """Kore's proxy for one command. A sandbox calls one of the two methods once.

    `channel` returns a Unix socket to inherit, over which listeners in the command's network are
    passed to Kore, the password required in each request, and the names to reach without the proxy;
    the caller closes the socket. Without `has_hosts` there is no password, and the proxy needs no
    listener; each of the `services` needs one, and all `targets`, written like `nas.local:5432`,
    one together. `host_addresses` are the addresses of names inside the sandbox. `listener` returns
    a port of 127.0.0.1 on the host, and the token that each connection must start with.
    """

    @property
    def has_hosts(self) -> bool: ...
    @property
    def services(self) -> tuple[LocalService, ...]: ...
    @property
    def targets(self) -> tuple[str, ...]: ...
    @property
    def host_addresses(self) -> Mapping[str, str]: ...

    def channel(self) -> tuple[int, str, tuple[str, ...]]: ...
    def listener(self) -> tuple[int, bytes]: ...


@frozen
class StoreMount:
    """Git store outside the workspace that a command may change, except its `read_only_paths`.

    A sandbox that cannot exclude paths lets it change only the `writable_folders` in it.
    """

    identity: FolderIdentity
    read_only_paths: tuple[Path, ...]
    writable_folders: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        return self.identity.path


@frozen
class AddedFolder:
    """Folder outside the workspace that a person lets commands read, except its `masked_paths`.

    A sandbox that cannot hide paths does not show a folder that contains such paths. If it
    `is_writable`, commands may change it, except its `read_only_paths` if the sandbox can exclude
    them; it then contains no other folder that they may change.
    """

    identity: FolderIdentity
    masked_paths: tuple[Path, ...] = ()
    is_writable: bool = False
    read_only_paths: tuple[Path, ...] = ()

    @property
    def path(self) -> Path:
        return self.identity.path


@frozen
class SandboxCommand:
    """Shell command to run in `folder`.

    It may only change `workspace`, a real path, with exceptions: it must not see `forbidden_paths`
    or change `locked_paths`, and a sandbox that cannot prevent this refuses to run it;
    `masked_paths` are hidden and `read_only_paths` made read-only if the sandbox can do so. With
    `read_only`, it may change only /tmp. `store` is the git store of the workspace if it lies
    outside. Without `egress` it has no network. `network` is a network shared with other commands,
    if the sandbox supports that.

    `stdin` is the descriptor of its input, which the caller closes; without it, the input is empty.
    `terminal` is the descriptor of a terminal for the command, under the same number or, in a
    sandbox that closes all others, as its input. `temporary` is a hidden folder whose `tmp` and
    `shm` appear as /tmp and /dev/shm; without it, both are new for each command. `variables` are
    for the command only, because they would affect the dynamic linker of the programs that build
    the sandbox. `git_defaults` are the settings that git has without a repository. `report` takes
    what the sandbox can measure about the command. `folders` are readable as well, and some are
    writable.
    """

    command: str
    folder: Path
    workspace: Path
    forbidden_paths: tuple[Path, ...] = ()
    locked_paths: tuple[Path, ...] = ()
    masked_paths: tuple[Path, ...] = ()
    read_only_paths: tuple[Path, ...] = ()
    store: StoreMount | None = None
    egress: EgressChannel | None = None
    stdin: int | None = None
    read_only: bool = False
    temporary: Path | None = None
    network: "SessionNetwork | None" = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    terminal: int | None = None
    identity: FolderIdentity | None = None
    git_defaults: GitDefaults = field(default_factory=GitDefaults)
    report: ReportPipe | None = None
    folders: tuple[AddedFolder, ...] = ()

    @property
    def writable_folders(self) -> tuple[AddedFolder, ...]:
        """Added folders that it may change."""
        return (
            () if self.read_only else tuple(folder for folder in self.folders if folder.is_writable)
        )

    @property
    def reaches_hosts(self) -> bool:
        """True if it may reach hosts, not only local services and targets."""
        return self.egress is not None and self.egress.has_hosts

    @contextmanager
    def open_workspace(self) -> Iterator[int]:
        """Open the workspace, whose identity must match `identity` if set.

        Raises `ToolError` if it was replaced by a link or another folder.
        """
        if self.workspace == Path("/"):
            raise ToolError("The whole file system cannot be a workspace; choose a folder.")
        with open_folder(self.workspace, self.identity) as descriptor:
            yield descriptor

    @contextmanager
    def open_folders(self) -> Iterator[Mapping[Path, int]]:
        """Open the workspace and, if it lies elsewhere, its git store.

        Raises `ToolError` if one was replaced.
        """
        with ExitStack() as stack:
            opened = {self.workspace: stack.enter_context(self.open_workspace())}
            if self.store is not None:
                store = open_folder(self.store.folder, self.store.identity)
                opened[self.store.folder] = stack.enter_context(store)
            yield opened

    @contextmanager
    def open_added_folders(self, *, may_mask: bool = True) -> Iterator[Mapping[Path, int]]:
        """Open the added folders that have not been replaced, outermost first.

        Without `may_mask`, folders with hidden paths are left out.
        """
        with ExitStack() as stack:
            opened: dict[Path, int] = {}
            for folder in sorted(self.folders, key=lambda folder: folder.path):
                if folder.masked_paths and not may_mask:
                    continue
                with suppress(ToolError):
                    context = open_folder(folder.path, folder.identity)
                    opened[folder.path] = stack.enter_context(context)
            yield opened


@frozen
class SpawnSpec:
    """Program to start as the leader of its own process group.

    Its standard input is a pipe whose other end only Kore has: when the pipe closes, all of its
    processes must end. With `is_supervised`, the program ends them itself and needs a moment;
    otherwise its group is killed. `resources` are closed once it has started. `user` is the ID that
    its pipes must belong to, if not Kore's own. `groups` are the folders of its control groups.
    With `lists_group`, the processes left in its group are listed.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    pass_fds: tuple[int, ...] = ()
    is_supervised: bool = False
    resources: ExitStack | None = None
    user: int | None = None
    groups: tuple[Path, ...] = ()
    lists_group: bool = False


class Sandbox(Protocol):
    """Way to confine a command to its workspace.

    `confines` is False if it does not confine at all; `supports_egress` means that it can use an
    `EgressChannel`. The context of `prepare` closes everything that it opens. `prepare` raises
    `ToolError` with a sentence for the model if the command cannot be run.
    """

    @property
    def name(self) -> str: ...
    @property
    def confines(self) -> bool: ...
    @property
    def supports_egress(self) -> bool: ...

    def prepare(self, job: SandboxCommand) -> AbstractContextManager[SpawnSpec]: ...


@runtime_checkable
class KeepsHome(Protocol):
    """Optional capability of a sandbox: the home folder persists across commands."""

    def home(self, temporary: Path) -> tuple[Path, str]:
        """Return the home folder inside `SandboxCommand.temporary`, and its path for commands."""
        ...

    def temporary_folder(self, temporary: Path) -> tuple[Path, str]:
        """Like `home`, for the folder of temporary files."""
        ...


@runtime_checkable
class ShowsFolders(Protocol):
    """Optional capability of a sandbox: additional folders to read and run from."""

    @property
    def readable_programs(self) -> tuple[Path, ...]:
        """Files and folders of this machine that a command can read and run from."""
        ...

    def readable_files(self, workspace: Path) -> tuple[Path, ...]:
        """Return the real files and folders outside the workspace that every command can read."""
        ...

    def showing(self, folders: tuple[Path, ...]) -> Sandbox:
        """Return the same sandbox with additional folders."""
        ...


@runtime_checkable
class RunsAsOtherUser(Protocol):
    """Optional capability of a sandbox: root's commands run as an unprivileged user."""

    def reading_rights(self, path: Path, workspace: Path) -> ReadingRights | None:
        """Return the rights of commands for a real path of `readable_files`.

        None if commands have the same user as Kore, or for another path.
        """
        ...

    def rights_in_temporary(self, folder: Path) -> ReadingRights | None:
        """Like `reading_rights`, for the commands' folder of temporary files."""
        ...


@runtime_checkable
class SharesNetwork(Protocol):
    """Optional capability of a sandbox: a network for several commands. Raises `OSError`; may
    block."""

    def open_network(self) -> "SessionNetwork": ...


# Standard input is a pipe whose other end only Kore has. A watcher in the command's group waits for
# its end: when Kore dies, by any signal, the watcher kills the group. PR_SET_PDEATHSIG would reach
# the program but not its children, and it fires when the forking thread ends rather than the
# process. The program replaces this shell and reads its configured input.
_WATCHER = "(read -r _ <&3; kill -9 0) >/dev/null 2>&1"
_WATCH = f'exec 3<&0 <%s; {_WATCHER} & exec 3<&-; exec "$@"'


def input_path(stdin: int | None) -> str:
    """Return the file to read from; sh has no other name for a descriptor with two digits."""
    return "/dev/null" if stdin is None else f"/dev/fd/{stdin}"


def with_parent_watch(
    argv: Sequence[str], moved_to: Sequence[Path] = (), stdin: int | None = None
) -> tuple[str, ...]:
    """Return the command line that runs `argv` with a watcher, in control groups if any are given.

    `stdin` is the descriptor that the command reads from.
    """
    watch = _WATCH % input_path(stdin)
    move = 'echo $$ >"$1" || exit 126; shift; ' * len(moved_to)
    return ("/bin/sh", "-c", f"{move}{watch}", "sh", *map(str, moved_to), *argv)


def is_parent_watch(cmdline: bytes) -> bool:
    """Return whether a process with these arguments, as in /proc, is the watcher of a command."""
    return _WATCHER.encode() in cmdline and cmdline.startswith(b"/bin/sh\0-c\0")
