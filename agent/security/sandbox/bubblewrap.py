"""Shell sandbox based on bubblewrap (`bwrap`), with private namespaces."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from agent.errors import ToolError
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.files.reading_rights import ReadingRights
from agent.security.files.safe_open import open_folder_beneath
from agent.security.sandbox import cgroup, environment, idmapped_mounts, orphan_processes
from agent.security.sandbox.base import Limits, SandboxCommand, SpawnSpec, with_parent_watch
from agent.security.sandbox.command_report import is_bash
from agent.security.sandbox.environment import Toolchains
from agent.security.sandbox.seccomp.bpf import (
    NAMESPACED,
    NAMESPACED_WITH_UNIX,
    SUPERVISED_SOCKETS,
    program,
    supervise_only,
)
from agent.security.sandbox.session_network import SessionNetwork
from agent.security.sandbox.trusted_programs import SYSTEM_PATH, find_trusted_program
from agent.security.sandbox.unprivileged_user import ROOT, USER, is_root

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - private to each command or session
_HOME = f"{environment.TEMPORARY}/home"
_GIT = "/etc/kore-git"
# Each mount needs a descriptor, of which a process has 1,024 by default; bwrap accepts 9,000
# arguments.
_MAX_MOUNTS = 200
_MAX_HIDDEN = 1000
_SOCKET_FOLDER_BYTES = "65536"
# The shell around bwrap uses lower numbers.
_FIRST_FREE_FD = 10
# Options used here that not every version supports.
FEATURES = ("--disable-userns", "--ro-bind-fd", "--size")
# Without `--new-session`, the first process of the namespace stays in the group that Kore kills;
# when it ends, so does the whole namespace.
_NAMESPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--die-with-parent", "--cap-drop", "ALL",
)  # fmt: skip
# Stage where root's folders are mounted for another user before bwrap starts.
_STAGE = Path(environment.TEMPORARY)
# Errors for root without the right to mount, and for kernels without ID-mapped mounts.
_NOT_ALLOWED = (errno.EPERM, errno.EACCES, errno.ENOSYS)


@frozen
class Bubblewrap:
    """Sandbox with private namespaces.

    `program` is the path of bwrap, `features` are the supported `FEATURES`. A command sees its
    workspace, its /tmp, its own read-only /proc and, read-only, the programs of this machine and a
    few files of /etc. It sees no other process or file, and no network except its own or a shared
    one, in which the proxy listens.

    If Kore runs as root, the command runs as another user, who has the files of the workspace's
    owner in a mount namespace created for it.
    """

    name: ClassVar[str] = "bwrap"
    confines: ClassVar[bool] = True
    supports_egress: ClassVar[bool] = True

    program: str
    features: frozenset[str]
    limits: Limits = field(default_factory=Limits)
    readable_folders: tuple[Path, ...] = ()
    shown_folders: tuple[Path, ...] = ()
    groups: tuple[Path, ...] = field(
        default_factory=lambda: () if os.geteuid() else cgroup.delegated_trees(), repr=False
    )
    runs_as_root: bool = field(default_factory=is_root)
    toolchains: Toolchains = field(default_factory=Toolchains)

    def home(self, temporary: Path) -> tuple[Path, str]:
        return temporary / "tmp/home", _HOME

    def temporary_folder(self, temporary: Path) -> tuple[Path, str]:
        return temporary / "tmp", environment.TEMPORARY

    def showing(self, folders: tuple[Path, ...]) -> "Bubblewrap":
        return replace(self, shown_folders=(*self.shown_folders, *folders))

    @property
    def _toolchains(self) -> Toolchains:
        """Toolchains that can be shown.

        Without descriptors, a command could replace a cache with a link after the check.
        """
        return self.toolchains if self._by_descriptor else self.toolchains.without_caches()

    @property
    def _visible(self) -> tuple[Path, ...]:
        return (*self.readable_folders, *self.shown_folders, *self.toolchains.folders)

    @property
    def readable_programs(self) -> tuple[Path, ...]:
        return environment.readable_programs((*self._visible, *self._toolchains.caches))

    def readable_files(self, workspace: Path) -> tuple[Path, ...]:
        with self._toolchains.open_caches(workspace) as caches:
            return environment.readable_files((*self._visible, *caches))

    def reading_rights(self, path: Path, workspace: Path) -> ReadingRights | None:
        if not self.runs_as_root:
            return None
        with self._toolchains.open_caches(workspace) as caches:
            mapped_places = environment.real_places((*self._visible, *caches))
        mounts = [ReadingRights(place, USER) for place in environment.readable_files()]
        # In these mounts, root's files belong to the user.
        mounts += [ReadingRights(place, ROOT) for place in mapped_places]
        candidates = [rights for rights in mounts if path.is_relative_to(rights.place)]
        # Of equal paths, the later mount covers the earlier one.
        return max(reversed(candidates), key=lambda rights: len(rights.place.parts), default=None)

    def rights_in_temporary(self, folder: Path) -> ReadingRights | None:
        return ReadingRights(folder, ROOT) if self.runs_as_root else None

    @contextmanager
    def prepare(self, job: SandboxCommand) -> Iterator[SpawnSpec]:
        """Prepare the command in its namespaces. Raises `ToolError`."""
        with ExitStack() as stack, ExitStack() as handed_over:
            opened_folders = stack.enter_context(job.open_folders())
            caches = stack.enter_context(self._toolchains.open_caches(job.workspace))
            # Without descriptors, a command could replace a folder with a link after the check.
            job = job if self._by_descriptor else replace(job, folders=())
            added = stack.enter_context(job.open_added_folders())
            job = replace(
                job, folders=tuple(folder for folder in job.folders if folder.path in added)
            )
            writable = {folder.path: added[folder.path] for folder in job.writable_folders}
            read_only = {**caches, **{path: added[path] for path in added if path not in writable}}
            # A worktree may be in its bare repository.
            changeable = dict(sorted({**opened_folders, **writable}.items()))
            setup = _Setup(handed_over, [*_NAMESPACES])
            if "--disable-userns" in self.features:
                setup.arguments.append("--disable-userns")
            rules = NAMESPACED_WITH_UNIX if _unix_services(job) else NAMESPACED
            setup.arguments += ["--seccomp", str(setup.add_data(program(rules)))]
            enter: tuple[str, ...] = ()
            if job.network is None:
                setup.arguments.append("--unshare-net")
            else:
                enter = (*job.network.enter, "--")
            sources = {path: path for path in (*changeable, *self._visible, *read_only)}
            if job.temporary is not None:
                sources[job.temporary] = job.temporary
            pins, frozen = self._mounts(job)
            if self.runs_as_root:
                own_mounts = {**dict.fromkeys(pins, False), **dict.fromkeys(frozen, True)}
                sources, words = self._map_to_user(
                    stack, changeable, read_only, job.temporary, own_mounts
                )
                network = () if job.network is None else job.network.enter[1:]
                enter = (words[0], *network, *words[1:])
                for descriptor in (job.stdin, job.terminal):
                    if descriptor is not None:
                        os.fchown(descriptor, USER, -1)
            folders = (*opened_folders, *added)
            above = sorted({place for folder in folders for place in _folder_above(folder)})
            self._base(setup, job, sources, above)
            self._show_read_only(setup, read_only, sources)
            self._make_socket_folders(setup, job)
            bind = "--ro-bind" if job.read_only else "--bind"
            if self.runs_as_root:
                for folder in changeable:
                    setup.arguments += [bind, str(sources[folder]), str(folder)]
            else:
                self._bind(setup, bind, changeable)
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
            setup.fds += () if job.report is None else job.report.descriptors
            moved_to = [group / cgroup.MEMBERS for group in groups]
            command = with_parent_watch([*argv, *start], moved_to, job.stdin)
            user = USER if self.runs_as_root else None
            yield SpawnSpec(
                command,
                {},
                Path("/"),
                tuple(setup.fds),
                resources=handed_over,
                user=user,
                groups=groups,
            )

    def _show_read_only(
        self, setup: "_Setup", folders: Mapping[Path, int], sources: Mapping[Path, Path]
    ) -> None:
        if not self.runs_as_root:
            self._bind(setup, "--ro-bind", folders)
            return
        for path in folders:
            setup.arguments += ["--ro-bind", str(sources[path]), str(path)]

    def _make_socket_folders(self, setup: "_Setup", job: SandboxCommand) -> None:
        """Create the folders below /run for the files that stand for Unix sockets."""
        services = () if job.egress is None else job.egress.services
        sockets = [
            service.path
            for service in services
            if service.path and service.path.is_relative_to("/run")
        ]
        for folder in sorted({str(path.parent) for path in sockets}):
            if "--size" in self.features:
                setup.arguments += ["--size", _SOCKET_FOLDER_BYTES]
            setup.arguments += ["--tmpfs", folder]
        if sockets:
            setup.arguments += ["--symlink", "../run", "/var/run"]

    def _bind(self, setup: "_Setup", bind: str, opened_folders: Mapping[Path, int]) -> None:
        for folder, descriptor in opened_folders.items():
            if self._by_descriptor:
                setup.arguments += [f"{bind}-fd", str(setup.own(os.dup(descriptor))), str(folder)]
            else:
                setup.arguments += [bind, str(folder), str(folder)]

    def _start(self, setup: "_Setup", job: SandboxCommand) -> list[str]:
        """Return the arguments that start the command, and set its variables."""
        programs = self.readable_programs
        env = environment.command_environment(os.environ, _HOME, programs)
        env |= {**self._toolchains.variables_of(job), **environment.variables_of_command(job)}
        env |= job.git_defaults.variables(_GIT)
        shell = environment.shell()
        if job.report is not None:
            env |= job.report.variables(job.command, shell)
        for name, value in env.items():
            setup.arguments += ["--setenv", name, value]
        setup.add_variables(job.variables)
        setup.arguments += ["--unsetenv", orphan_processes.NAME]
        start = ["setsid", shell, "-c", job.command]
        if job.egress is not None:
            channel, password, direct_names = job.egress.channel()
            services = " ".join(map(str, job.egress.services))
            targets = " ".join(job.egress.targets)
            is_supervised = targets or _unix_services(job)
            code = supervise_only(SUPERVISED_SOCKETS).hex() if is_supervised else ""
            words = [str(setup.own(channel)), password, ",".join(direct_names)]
            words += [services, targets, code]
            start = ["setsid", *self._listener_command(), *words, shell, job.command]
        if job.report is not None and is_bash(shell):
            start = job.report.wrapped(start, shell)
        return start

    def open_network(self) -> SessionNetwork:
        """Open a network that several commands can share."""
        return SessionNetwork.open(self.program)

    def _map_to_user(
        self,
        stack: ExitStack,
        opened_folders: Mapping[Path, int],
        read_only: Mapping[Path, int],
        temporary: Path | None,
        own_mounts: Mapping[Path, bool],
    ) -> tuple[dict[Path, Path], tuple[str, ...]]:
        """Map the folders to `USER`; return their new paths, and the arguments that start a program
        there.

        `opened_folders` are the folders that a command may change, `read_only` the folders that it
        may only read, with a descriptor of each. The paths in `own_mounts`, all below
        `opened_folders`, become separate mounts, read-only or not.
        """
        sources = {path: _STAGE / f"own-{n}" for n, path in enumerate(opened_folders)}
        owners = {
            path: idmapped_mounts.Owner.of(descriptor)
            for path, descriptor in opened_folders.items()
        }
        mounts = [
            idmapped_mounts.Mount(descriptor, sources[path], owner=owners[path])
            for path, descriptor in opened_folders.items()
        ]
        for number, (path, descriptor) in enumerate(read_only.items()):
            sources[path] = _STAGE / f"read-{number}"
            mounts.append(idmapped_mounts.Mount(descriptor, sources[path], read_only=True))
        if temporary is not None:
            sources[temporary] = _STAGE / "tmp"
            mounts.append(idmapped_mounts.Mount(temporary, sources[temporary]))
        # The workspace, which may be among them, is already mounted.
        folders = (path for path in self._visible if path not in sources and path.exists())
        for number, path in enumerate(folders):
            sources[path] = _STAGE / str(number)
            mounts.append(idmapped_mounts.Mount(path, sources[path], read_only=True))
        try:
            with ExitStack() as open_fds:
                for path, is_frozen in own_mounts.items():
                    fd = _open_path(path)
                    if fd is None:
                        continue
                    open_fds.callback(os.close, fd)
                    if not stat.S_ISLNK(os.fstat(fd).st_mode):
                        root = _root_of(path, opened_folders)
                        place = sources[root] / path.relative_to(root)
                        mounts.append(idmapped_mounts.Mount(fd, place, is_frozen, owners[root]))
                space = stack.enter_context(idmapped_mounts.namespace(_STAGE, mounts))
        except idmapped_mounts.UnmappedFileSystem as exc:
            text = render_prompt("sandbox/unmapped", path=exc.filename, reason=exc.strerror)
            raise ToolError(text) from exc
        except OSError as exc:
            text = "no_mounts" if exc.errno in _NOT_ALLOWED else "not_mounted"
            raise ToolError(
                render_prompt(f"sandbox/{text}", reason=exc.strerror or str(exc))
            ) from exc
        user = str(USER)
        enter = (_find_nsenter(), f"--mount={space}", "-S", user, "-G", user, "--")
        return sources, enter

    def _listener_command(self) -> list[str]:
        """Return the arguments of the listener program, without the command's own."""
        python = environment.python(self.readable_programs)
        if python is None:
            raise ToolError(load_prompt("sandbox/no_python"))
        text = Path(__file__).with_name("netns_listener.py").read_text("utf-8")
        return [python, "-I", "-S", "-c", text]

    def _base(
        self,
        setup: "_Setup",
        job: SandboxCommand,
        sources: Mapping[Path, Path],
        above: Sequence[str],
    ) -> None:
        arguments, temporary = setup.arguments, job.temporary
        for path in environment.readable_programs():
            _show(path, path, arguments)
        for name in environment.configuration():
            arguments += ["--ro-bind-try", name, name]
        for name, data in {**self._account_files(job), **job.git_defaults.files(_GIT)}.items():
            arguments += ["--ro-bind-data", str(setup.add_data(data)), name]
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
        # These may be below /tmp themselves.
        for path in self._visible:
            if path.exists():
                _show(path, sources.get(path, path), arguments)

    def _mounts(self, job: SandboxCommand) -> tuple[Sequence[Path], Sequence[Path]]:
        """Return the paths to mount on themselves and those to make read-only, outermost first.

        A mount that covers a path is effective only while no folder above it is renamed, so each of
        these folders becomes a mount, which cannot be renamed. If that takes too many mounts or is
        impossible, the uppermost folder becomes read-only as a whole.
        """
        hidden_paths = (*job.forbidden_paths, *job.masked_paths)
        if len(hidden_paths) > _MAX_HIDDEN:
            raise ToolError(
                render_prompt("sandbox/too_many", count=len(hidden_paths), limit=_MAX_HIDDEN)
            )
        roots = [job.workspace]
        read_only = [*job.locked_paths, *job.read_only_paths]
        if job.store is not None:
            roots.append(job.store.folder)
            read_only += job.store.read_only_paths
        for folder in job.writable_folders:
            roots.append(folder.path)
            read_only += folder.read_only_paths
            hidden_paths += folder.masked_paths
        frozen: set[Path] = set() if job.read_only else set(read_only)
        pins: set[Path] = set()
        for path in () if job.read_only else (*hidden_paths, *read_only):
            depth = len(path.relative_to(_root_of(path, roots)).parts)
            above = path.parents[: depth - 1]
            if self._by_descriptor:
                pins.update(above)
            elif path not in job.read_only_paths:
                frozen.update(above[-1:])
        if len(pins) + len(frozen) > _MAX_MOUNTS:
            top = {path: _root_of(path, roots) for path in (*pins, *frozen)}
            frozen = {root / path.relative_to(root).parts[0] for path, root in top.items()}
            pins = set()
        return sorted(pins), sorted(frozen)

    @property
    def _by_descriptor(self) -> bool:
        return self.runs_as_root or "--ro-bind-fd" in self.features

    def _hide(self, setup: "_Setup", job: SandboxCommand) -> None:
        masked = [path for folder in job.folders for path in folder.masked_paths]
        for path in sorted((*job.forbidden_paths, *job.masked_paths, *masked)):
            if path.is_symlink() or path.is_file():
                setup.arguments += ["--ro-bind", "/dev/null", str(path)]
            elif path.is_dir():
                setup.arguments += ["--tmpfs", str(path), "--remount-ro", str(path)]

    def _account_files(self, job: SandboxCommand) -> dict[str, bytes]:
        """Return account files that name only the IDs of the command, and its names of hosts."""
        uid, gid = (USER,) * 2 if self.runs_as_root else (os.geteuid(), os.getegid())
        hosts = {} if job.egress is None else job.egress.host_addresses
        names = "".join(f"{address} {name}\n" for name, address in hosts.items())
        return {
            "/etc/passwd": f"kore:x:{uid}:{gid}::{_HOME}:/bin/sh\n".encode(),
            "/etc/group": f"kore:x:{gid}:\n".encode(),
            # Java and others look up the name of the machine.
            "/etc/hosts": (
                f"{names}127.0.0.1 localhost {os.uname().nodename}\n::1 localhost\n".encode()
            ),
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
        return f'{{ {environment.limit_commands(limits)}; }} 2>/dev/null; exec "$@"'

    def _groups(self, stack: ExitStack) -> tuple[Path, ...]:
        # Allow for the watcher and the reaper, and for more memory, so that Kore, which reports the
        # reason, acts before the kernel.
        memory_bytes = self.limits.session_bytes * 5 // 4
        bounds = cgroup.GroupLimits(self.limits.processes + 4, memory_bytes)
        try:
            return stack.enter_context(cgroup.with_process_limit(self.groups, bounds))
        except OSError as exc:
            raise ToolError(
                "The control group that limits the command could not be created."
            ) from exc


def _unix_services(job: SandboxCommand) -> bool:
    """Return whether the command may reach a Unix socket of this machine."""
    services = () if job.egress is None else job.egress.services
    return any(service.path is not None for service in services)


def _root_of(path: Path, roots: Iterable[Path]) -> Path:
    """Return the folder that contains the path."""
    return next(root for root in roots if path.is_relative_to(root))


def _folder_above(workspace: Path) -> tuple[str, ...]:
    """Return the uppermost folder above a workspace that is below /tmp or /dev/shm.

    It must be read-only: otherwise a write next to the workspace would go to the sandbox's own
    /tmp.
    """
    for private in map(Path, (environment.TEMPORARY, _SHARED_MEMORY)):
        if workspace.is_relative_to(private) and workspace.parent != private:
            return (str(private / workspace.relative_to(private).parts[0]),)
    return ()


def _show(path: Path, source: Path, arguments: list[str]) -> None:
    """Show a folder or file read-only; a link is created again."""
    if path.is_symlink():
        arguments += ["--symlink", os.readlink(path), str(path)]
    else:
        arguments += ["--ro-bind", str(source), str(path)]


@dataclass(slots=True)
class _Setup:
    """Arguments for bwrap and the descriptors that they refer to."""

    stack: ExitStack
    arguments: list[str]
    fds: list[int] = field(default_factory=list)

    def add_data(self, data: bytes) -> int:
        """Return a descriptor to read the data from."""
        fd = self.own(os.memfd_create("data"))
        with open(os.dup(fd), "wb") as file:
            file.write(data)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Pass the command's variables through a descriptor: they may be secret, and arguments are
        public.
        """
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
        """Make a path read-only; a link is left alone, since its target is not shown.

        Without descriptors the folder is shown empty, because another command could replace the
        path with a link and expose any folder of this machine.
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
        """Pass a descriptor on and close it afterwards; return its number there."""
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
    """Open a path, or the link itself, without following links; return None on failure."""
    try:
        with open_folder_beneath(path.parent) as folder:
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(path.name, flags, dir_fd=folder)
    except OSError:
        return None


def features_of(help_text: str) -> frozenset[str]:
    """Return the supported features according to `bwrap --help`."""
    return frozenset(feature for feature in FEATURES if f"{feature} " in f"{help_text} ")
