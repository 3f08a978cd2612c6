"""Commands in namespaces of their own, made by bubblewrap (`bwrap`)."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from agent.errors import ToolError
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.files.safe_open import open_folder_beneath
from agent.security.sandbox import cgroup, environment, orphan_processes
from agent.security.sandbox.base import Limits, SandboxCommand, SpawnSpec
from agent.security.sandbox.parent_watch import with_parent_watch
from agent.security.sandbox.seccomp.bpf import NAMESPACED, program
from agent.security.sandbox.session_network import SessionNetwork
from agent.security.sandbox.toolchains import Toolchains
from agent.security.sandbox.trusted_programs import SYSTEM_PATH, find_trusted_program
from agent.security.sandbox.unprivileged_user import USER, is_root

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - of its own to every command or conversation
_HOME = f"{environment.TEMPORARY}/home"
# Each takes a descriptor, of which a process has 1,024 at first; bwrap takes 9,000 words.
_MOST_MOUNTS = 200
_MOST_HIDDEN = 1000
# The shell around bwrap uses lower numbers itself.
_FIRST_FREE_FD = 10
# Options that not every version knows, of those that are used here.
FEATURES = ("--disable-userns", "--ro-bind-fd", "--size")
# No session of its own (`--new-session`): the first process of the namespace stays in the group
# that Kore kills, from its first moment to its last, and takes the whole namespace with it.
_NAMESPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--die-with-parent", "--cap-drop", "ALL",
)  # fmt: skip
# Where root's folders are shown as another user's, before bwrap begins.
_STAGE = Path(environment.TEMPORARY)
# What the kernel says to a root that may not mount, or that is older than such mounts.
_NOT_ALLOWED = (errno.EPERM, errno.EACCES, errno.ENOSYS)


@frozen
class Bubblewrap:
    """`program` is the path of bwrap, `features` those of `FEATURES` that it knows.

    A command sees the programs of this machine and a few files of /etc, all read-only, its
    workspace, the /tmp of its job and a /proc of its own that it cannot write to; no other process,
    no other file, and no network but its own or that of its job, in which the way out listens.

    Root's command is not root: it runs as a user of its own, to whom the workspace belongs in a
    mount namespace that is made for it.
    """

    name: ClassVar[str] = "bwrap"
    confines: ClassVar[bool] = True
    supports_egress: ClassVar[bool] = True

    program: str
    features: frozenset[str]
    limits: Limits = field(default_factory=Limits)
    readable_folders: tuple[Path, ...] = ()
    groups: tuple[Path, ...] = field(
        default_factory=lambda: () if os.geteuid() else cgroup.delegated_trees(), repr=False
    )
    runs_as_root: bool = field(default_factory=is_root)
    toolchains: Toolchains = field(default_factory=Toolchains)

    def home(self, temporary: Path) -> tuple[Path, str]:
        return temporary / "tmp/home", _HOME

    def showing(self, folders: tuple[Path, ...]) -> "Bubblewrap":
        return replace(self, readable_folders=(*self.readable_folders, *folders))

    @property
    def _visible(self) -> tuple[Path, ...]:
        return (*self.readable_folders, *self.toolchains.folders)

    @property
    def readable_programs(self) -> tuple[Path, ...]:
        return environment.readable_programs(self._visible)

    @contextmanager
    def prepare(self, job: SandboxCommand) -> Iterator[SpawnSpec]:
        """The command in its namespaces. Raises `ToolError`."""
        workspace = job.workspace
        with ExitStack() as stack, ExitStack() as lent:
            opened = stack.enter_context(job.open_workspace())
            setup = _Setup(lent, [*_NAMESPACES])
            if "--disable-userns" in self.features:
                setup.arguments.append("--disable-userns")
            setup.arguments += ["--seccomp", str(setup.add_data(program(NAMESPACED)))]
            enter: tuple[str, ...] = ()
            if job.network is None:
                setup.arguments.append("--unshare-net")
            else:
                enter = (*job.network.enter, "--")
            sources = {path: path for path in (workspace, *self._visible)}
            if job.temporary is not None:
                sources[job.temporary] = job.temporary
            pins, frozen = self._mounts(job, workspace)
            if self.runs_as_root:
                own_mounts = {**dict.fromkeys(pins, False), **dict.fromkeys(frozen, True)}
                sources, words = self._map_to_user(
                    stack, (workspace, opened), job.temporary, own_mounts
                )
                network = () if job.network is None else job.network.enter[1:]
                enter = (words[0], *network, *words[1:])
                for descriptor in (job.stdin, job.terminal):
                    if descriptor is not None:
                        os.fchown(descriptor, USER, -1)
            above = _folder_beside(workspace)
            self._base(setup, sources, job.temporary, above)
            bind, source = "--ro-bind" if job.read_only else "--bind", str(sources[workspace])
            if self._by_descriptor and not self.runs_as_root:
                bind, source = f"{bind}-fd", str(setup.own(os.dup(opened)))
            setup.arguments += [bind, source, str(workspace)]
            if not self.runs_as_root:
                for path in pins:
                    setup.pin(path)
                for path in frozen:
                    setup.freeze(path, by_descriptor=self._by_descriptor)
            self._hide(setup, job)
            for place in ("/proc", "/", *above):
                setup.arguments += ["--remount-ro", place]
            setup.arguments += ["--chdir", str(job.folder)]
            start = self._start(setup, job)
            groups = self._groups(stack)
            argv = [*enter, self.program, *setup.arguments]
            argv += ["--", "/bin/sh", "-c", self._limit_script(), "sh"]
            setup.fds += [fd for fd in (job.stdin, job.terminal) if fd is not None]
            moved_to = [group / cgroup.MEMBERS for group in groups]
            command = with_parent_watch([*argv, *start], moved_to, job.stdin)
            user = USER if self.runs_as_root else None
            yield SpawnSpec(
                command, {}, Path("/"), tuple(setup.fds), resources=lent, user=user, groups=groups
            )

    def _start(self, setup: "_Setup", job: SandboxCommand) -> list[str]:
        """The words of the command, for which the variables are set."""
        programs = self.readable_programs
        env = environment.command_environment(os.environ, _HOME, programs)
        env |= {**self.toolchains.variables, **environment.of_job(job)}
        for name, value in env.items():
            setup.arguments += ["--setenv", name, value]
        setup.add_variables(job.variables)
        setup.arguments += ["--unsetenv", orphan_processes.NAME]
        shell = environment.shell()
        if job.egress is None:
            return [shell, "-c", job.command]
        channel, password, direct_names = job.egress.channel()
        words = [str(setup.own(channel)), password, ",".join(direct_names), shell, job.command]
        return [*self._inlet(), *words]

    def open_network(self) -> SessionNetwork:
        """A network that several commands can share."""
        return SessionNetwork.open(self.program)

    def _map_to_user(
        self,
        stack: ExitStack,
        opened_workspace: tuple[Path, int],
        temporary: Path | None,
        own_mounts: Mapping[Path, bool],
    ) -> tuple[dict[Path, Path], tuple[str, ...]]:
        """Where the folders lie for `USER`, and the words that make a program theirs.

        `opened_workspace` is its path and a descriptor of it. What is `own_mounts` in the workspace
        is a mount of its own, read-only or not.
        """
        from agent.security.sandbox import idmapped_mounts

        workspace, opened = opened_workspace
        sources = {workspace: _STAGE / "workspace"}
        mounts = [idmapped_mounts.Mount(opened, sources[workspace])]
        if temporary is not None:
            sources[temporary] = _STAGE / "tmp"
            mounts.append(idmapped_mounts.Mount(temporary, sources[temporary]))
        # The workspace may be among them; it is mounted below.
        folders = (path for path in self._visible if path not in sources and path.exists())
        for number, path in enumerate(folders):
            sources[path] = _STAGE / str(number)
            mounts.append(idmapped_mounts.Mount(path, sources[path], read_only=True))
        try:
            with ExitStack() as open_fds:
                for path, read_only in own_mounts.items():
                    fd = _open_path(path)
                    if fd is None:
                        continue
                    open_fds.callback(os.close, fd)
                    if not stat.S_ISLNK(os.fstat(fd).st_mode):
                        place = sources[workspace] / path.relative_to(workspace)
                        mounts.append(idmapped_mounts.Mount(fd, place, read_only))
                space = stack.enter_context(idmapped_mounts.namespace(_STAGE, mounts))
        except OSError as exc:
            text = "no_mounts" if exc.errno in _NOT_ALLOWED else "unmapped"
            raise ToolError(
                render_prompt(f"sandbox/{text}", reason=exc.strerror or str(exc))
            ) from exc
        user = str(USER)
        enter = (_find_nsenter(), f"--mount={space}", "-S", user, "-G", user, "--")
        return sources, enter

    def _inlet(self) -> list[str]:
        """The words of the program that hands a listener out, without its arguments."""
        python = environment.python(self.readable_programs)
        if python is None:
            raise ToolError(load_prompt("sandbox/no_python"))
        text = Path(__file__).with_name("netns_listener.py").read_text("utf-8")
        return [python, "-I", "-S", "-c", text]

    def _base(
        self,
        setup: "_Setup",
        sources: Mapping[Path, Path],
        temporary: Path | None,
        above: Sequence[str],
    ) -> None:
        arguments = setup.arguments
        for path in environment.readable_programs():
            _show(path, path, arguments)
        for name in environment.CONFIGURATION:
            arguments += ["--ro-bind-try", name, name]
        for name, text in self._people().items():
            arguments += ["--ro-bind-data", str(setup.add_data(text.encode())), name]
        arguments += ["--proc", "/proc", "--dev", "/dev"]
        for folder in (_SHARED_MEMORY, environment.TEMPORARY):
            if "--size" in self.features:
                arguments += ["--size", str(self.limits.file_bytes)]
            arguments += ["--tmpfs", folder]
        if temporary is not None:
            arguments += ["--bind", str(sources[temporary] / "tmp"), environment.TEMPORARY]
            arguments += ["--bind", str(sources[temporary] / "shm"), _SHARED_MEMORY]
        arguments += ["--remount-ro", "/dev", "--dir", _HOME]
        for place in above:
            arguments += ["--tmpfs", place]
        # They may lie below /tmp themselves.
        for path in self._visible:
            if path.exists():
                _show(path, sources.get(path, path), arguments)

    def _mounts(
        self, job: SandboxCommand, workspace: Path
    ) -> tuple[Sequence[Path], Sequence[Path]]:
        """What is mounted on itself, and then what is made read-only; the outer before the inner.

        What covers a path has an effect as long as no folder above it is renamed: so each of
        these is a mount of its own, which cannot be renamed. Where that takes too many, or cannot
        be done, the uppermost of them is frozen as a whole.
        """
        hidden_paths = (*job.forbidden_paths, *job.masked_paths)
        if len(hidden_paths) > _MOST_HIDDEN:
            raise ToolError(
                render_prompt("sandbox/too_many", count=len(hidden_paths), limit=_MOST_HIDDEN)
            )
        frozen: set[Path] = set() if job.read_only else set(job.read_only_paths)
        pins: set[Path] = set()
        for path in () if job.read_only else (*hidden_paths, *job.read_only_paths):
            above = path.parents[: len(path.relative_to(workspace).parts) - 1]
            if self._by_descriptor:
                pins.update(above)
            elif path not in job.read_only_paths:
                frozen.update(above[-1:])
        if len(pins) + len(frozen) > _MOST_MOUNTS:
            frozen = {workspace / path.relative_to(workspace).parts[0] for path in (*pins, *frozen)}
            pins = set()
        return sorted(pins), sorted(frozen)

    @property
    def _by_descriptor(self) -> bool:
        return self.runs_as_root or "--ro-bind-fd" in self.features

    def _hide(self, setup: "_Setup", job: SandboxCommand) -> None:
        for path in sorted((*job.forbidden_paths, *job.masked_paths)):
            if path.is_symlink() or path.is_file():
                setup.arguments += ["--ro-bind", "/dev/null", str(path)]
            elif path.is_dir():
                setup.arguments += ["--tmpfs", str(path), "--remount-ro", str(path)]

    def _people(self) -> dict[str, str]:
        """Files that give names to the ids of the command, and to no others."""
        uid, gid = (USER,) * 2 if self.runs_as_root else (os.geteuid(), os.getegid())
        return {
            "/etc/passwd": f"kore:x:{uid}:{gid}::{_HOME}:/bin/sh\n",
            "/etc/group": f"kore:x:{gid}:\n",
            "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
        }

    def _limit_script(self) -> str:
        limits = {
            "c": 0,
            "n": self.limits.open_files,
            "f": self.limits.file_bytes // 512,
            "d": self.limits.memory_bytes // 1024,
            "t": self.limits.cpu_s,
            "u": self.limits.processes,
        }
        return f'{{ {environment.with_limits(limits)}; }} 2>/dev/null; exec setsid "$@"'

    def _groups(self, stack: ExitStack) -> tuple[Path, ...]:
        # Some more, for what watches and what reaps.
        # Some more memory, too: Kore, which says why, is to be there before the kernel.
        memory_bytes = self.limits.session_bytes * 5 // 4
        bounds = cgroup.GroupLimits(self.limits.processes + 4, memory_bytes)
        try:
            return stack.enter_context(cgroup.with_process_limit(self.groups, bounds))
        except OSError as exc:
            raise ToolError(
                "The control group that limits the command could not be created."
            ) from exc


def _folder_beside(workspace: Path) -> tuple[str, ...]:
    """The uppermost folder above a workspace that lies below /tmp or /dev/shm.

    It is to be read-only, or a write beside the workspace would end in the sandbox's own /tmp.
    """
    for private in map(Path, (environment.TEMPORARY, _SHARED_MEMORY)):
        if workspace.is_relative_to(private) and workspace.parent != private:
            return (str(private / workspace.relative_to(private).parts[0]),)
    return ()


def _show(path: Path, source: Path, arguments: list[str]) -> None:
    """Let a folder or file be read; a link is made again."""
    if path.is_symlink():
        arguments += ["--symlink", os.readlink(path), str(path)]
    else:
        arguments += ["--ro-bind", str(source), str(path)]


@dataclass(slots=True)
class _Setup:
    """The words for bwrap so far, and the descriptors that they speak of."""

    stack: ExitStack
    arguments: list[str]
    fds: list[int] = field(default_factory=list)

    def add_data(self, data: bytes) -> int:
        """A descriptor to read this from; small enough to wait in a pipe."""
        reader, writer = os.pipe()
        with os.fdopen(writer, "wb") as file:
            file.write(data)
        return self.own(reader)

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Those of the command's own, which may be secret: nobody reads them from the words."""
        if variables:
            words = [word for pair in variables.items() for word in ("--setenv", *pair)]
            fd = self.own(os.memfd_create("variables"))
            os.write(fd, b"".join(os.fsencode(word) + b"\0" for word in words))
            os.lseek(fd, 0, os.SEEK_SET)
            self.arguments += ["--args", str(fd)]

    def pin(self, path: Path) -> None:
        """Mount a folder on itself, so that it cannot be renamed."""
        fd = _open_path(path)
        if fd is None:
            return
        fd = self.own(fd)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            self.arguments += ["--bind-fd", str(fd), str(path)]

    def freeze(self, path: Path, *, by_descriptor: bool) -> None:
        """Let it be read only; a link is left as it is, it leads nowhere else.

        By its name, another command could put a link in its place meanwhile and so have any
        folder of this machine shown: then the folder is shown empty.
        """
        fd = _open_path(path)
        if fd is None:
            return
        fd = self.own(fd)
        mode = os.fstat(fd).st_mode
        if stat.S_ISLNK(mode):
            return
        if by_descriptor:
            self.arguments += ["--ro-bind-fd", str(fd), str(path)]
        elif stat.S_ISDIR(mode):
            self.arguments += ["--tmpfs", str(path), "--remount-ro", str(path)]
        else:
            self.arguments += ["--ro-bind", "/dev/null", str(path)]

    def own(self, descriptor: int) -> int:
        """Pass it on, and close it in the end; returns its number there."""
        if descriptor < _FIRST_FREE_FD:
            low, descriptor = (
                descriptor,
                fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD),
            )
            os.close(low)
        self.stack.callback(os.close, descriptor)
        self.fds.append(descriptor)
        return descriptor


def _find_nsenter() -> str:
    program = find_trusted_program("nsenter", path=SYSTEM_PATH)
    if program is None:
        raise ToolError(load_prompt("sandbox/no_nsenter"))
    return program


def _open_path(path: Path) -> int | None:
    """A descriptor of what lies there, also of a link, and never by way of one; or None."""
    try:
        with open_folder_beneath(path.parent) as folder:
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(path.name, flags, dir_fd=folder)
    except OSError:
        return None


def version_words(help_text: str) -> frozenset[str]:
    """The features that `bwrap --help` tells of."""
    return frozenset(feature for feature in FEATURES if f"{feature} " in f"{help_text} ")
