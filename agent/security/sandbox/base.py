"""The port to a sandbox: what a command is given, and how it is then started."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agent.errors import ToolError
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity, open_folder


@frozen
class Limits:
    """What one command may use up: processes at a time, bytes of one file, of one process's memory
    and of the private /tmp, and seconds of a processor for one process.

    `session_bytes` is the memory of all commands of a session together, `disk_bytes` what one may
    add to its workspace, and `free_bytes` of the disk it has to leave.
    """

    processes: int = 256
    file_bytes: int = 1_000_000_000
    memory_bytes: int = 4_000_000_000
    open_files: int = 1024
    cpu_s: int = 3600
    session_bytes: int = 8_000_000_000
    disk_bytes: int = 10_000_000_000
    free_bytes: int = 500_000_000


if TYPE_CHECKING:
    from agent.security.sandbox.session_network import SessionNetwork


class EgressChannel(Protocol):
    """Kore's proxy for one command. A sandbox uses one of the two, once.

    `channel` is a Unix socket to inherit, over which a listener of the command's own network is
    handed out, the password that each request to it has to bring, and the names that programs reach
    without it; the caller closes it.
    `listener` is a port of 127.0.0.1 out here, and the token with which each connection to it has
    to begin.
    """

    def channel(self) -> tuple[int, str, tuple[str, ...]]: ...
    def listener(self) -> tuple[int, bytes]: ...


@frozen
class SandboxCommand:
    """A shell command to run in `folder`.

    `workspace`, a real path, is all that it may change, except some existing files and folders in
    there: it must not see `forbidden_paths`, so that a sandbox that cannot hide them refuses;
    `masked_paths` are hidden and `read_only_paths` made read-only where a sandbox can. Without
    `egress` it has no network. `stdin` is the descriptor that it reads from, which stays the
    caller's; without one there is nothing to read. `terminal` is the descriptor of a terminal that
    the command gets as well, under the same number or, in a sandbox that closes all others, as its
    input. With `read_only` it may not change the workspace either, only /tmp.
    `temporary` is a folder that no command sees, whose `tmp` and `shm` are /tmp and /dev/shm to it;
    without one those are new and gone afterwards.
    `network` is one that it shares with others, where the sandbox has such. `variables` are the
    command's own: what builds the sandbox must not have them, its linker would heed them out here.
    """

    command: str
    folder: Path
    workspace: Path
    forbidden_paths: tuple[Path, ...] = ()
    masked_paths: tuple[Path, ...] = ()
    read_only_paths: tuple[Path, ...] = ()
    egress: EgressChannel | None = None
    stdin: int | None = None
    read_only: bool = False
    temporary: Path | None = None
    network: "SessionNetwork | None" = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    terminal: int | None = None
    identity: FolderIdentity | None = None

    @contextmanager
    def open_workspace(self) -> Iterator[int]:
        """A descriptor of the workspace, which is the folder of `identity` if that is known. Raises
        `ToolError` where a link or another folder has taken its place."""
        if self.workspace == Path("/"):
            raise ToolError("The whole file system cannot be a workspace; choose a folder.")
        with open_folder(self.workspace, self.identity) as descriptor:
            yield descriptor


@frozen
class SpawnSpec:
    """A program to start as the leader of a process group of its own.

    Its standard input is a pipe whose other end only Kore holds: at that pipe's end everything
    that was started has to die. With `is_supervised` it does that itself and needs a moment
    for it; of any other the group is killed. `resources` are closed once it has started. `user` is
    the id of the user that its pipes must belong to, if that is not Kore's own. `groups` are the
    folders of its control groups.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    pass_fds: tuple[int, ...] = ()
    is_supervised: bool = False
    resources: ExitStack | None = None
    user: int | None = None
    groups: tuple[Path, ...] = ()


class Sandbox(Protocol):
    """One way to keep a command in its workspace.

    `confines` says whether it does so at all, `supports_egress` whether it can use an
    `EgressChannel`. What `prepare` opens is closed with its context; it raises `ToolError` with a
    sentence for the model when the command cannot be run.
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
    """Optional ability of a sandbox: the home folder outlives a command."""

    def home(self, temporary: Path) -> tuple[Path, str]:
        """Return where the home lies in `SandboxCommand.temporary`, and its path for commands."""
        ...


@runtime_checkable
class ShowsFolders(Protocol):
    """Optional ability of a sandbox: further folders to read and run from."""

    @property
    def readable_programs(self) -> tuple[Path, ...]:
        """Files and folders of programs on this machine that a command can read and run from."""
        ...

    def showing(self, folders: tuple[Path, ...]) -> Sandbox:
        """The same sandbox, with these folders as well."""
        ...


@runtime_checkable
class SharesNetwork(Protocol):
    """Optional ability of a sandbox: several commands in one network. Raises OSError; may block."""

    def open_network(self) -> "SessionNetwork": ...
