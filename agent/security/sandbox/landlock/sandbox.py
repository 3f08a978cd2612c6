"""Sandbox based on Landlock and seccomp, for systems without user namespaces.

See Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h of the kernel.
"""

import ctypes
import marshal
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.files.folder_identity import open_folder
from agent.security.files.folder_tree import scratch_folder
from agent.security.sandbox import environment, orphan_processes
from agent.security.sandbox.base import Limits, SandboxCommand, SpawnSpec
from agent.security.sandbox.environment import Toolchains
from agent.security.sandbox.seccomp.bpf import program, rules_beyond_landlock, supervised_calls

# File access rights, and the versions that introduced them.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_FIRST = (1 << 13) - 1
_MAKE_DEVICES = (1 << 6) | (1 << 11)
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_SINCE = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_TCP, _TCP_SINCE = 0b11, 4
_SCOPES, _SCOPES_SINCE = 0b11, 6
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

# No process entries of /proc: such a rule would show all processes.
_FACTS = (
    "/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat",
    "/proc/uptime", "/proc/version", "/proc/sys/kernel/osrelease", "/proc/sys/vm",
    "/sys/devices/system/cpu", "/etc/passwd", "/etc/group", "/etc/hosts",
)  # fmt: skip
_DEVICES = {"/dev/full": True, "/dev/null": True, "/dev/zero": True}
_DEVICES |= {"/dev/random": False, "/dev/urandom": False}

_START = """\
import sys
sys.path.append(sys.argv[1])
from agent.security.sandbox.landlock.launcher import main
main()
"""


@frozen
class Landlock:
    """Sandbox that starts each command through a launcher.

    `abi` is the Landlock version to use, at most the kernel's; `python` runs the launcher. A
    command sees the same files as under bubblewrap. It shares /proc (without access to entries of
    processes) and the process table with everything else, but cannot signal other processes. Parts
    of the workspace cannot be excluded: `masked_paths` and `read_only_paths` are as accessible as
    the rest.
    """

    name: ClassVar[str] = "landlock"
    confines: ClassVar[bool] = True

    abi: int
    limits: Limits = field(default_factory=Limits)
    readable_folders: tuple[Path, ...] = ()
    shown_folders: tuple[Path, ...] = ()
    python: str = sys.executable
    toolchains: Toolchains = field(default_factory=Toolchains)

    @property
    def supports_egress(self) -> bool:
        """True for versions that restrict ports.

        In older versions, only the filter would keep a socket from connecting elsewhere.
        """
        return self.abi >= _TCP_SINCE

    def home(self, temporary: Path) -> tuple[Path, str]:
        home = temporary / "tmp/home"
        return home, str(home)

    def temporary_folder(self, temporary: Path) -> tuple[Path, str]:
        folder = temporary / "tmp"
        return folder, str(folder)

    def showing(self, folders: tuple[Path, ...]) -> "Landlock":
        return replace(self, shown_folders=(*self.shown_folders, *folders))

    @property
    def _visible(self) -> tuple[Path, ...]:
        return (*self.readable_folders, *self.shown_folders, *self.toolchains.folders)

    @property
    def readable_programs(self) -> tuple[Path, ...]:
        return environment.readable_programs((*self._visible, *self.toolchains.caches))

    def readable_files(self, workspace: Path) -> tuple[Path, ...]:
        with self.toolchains.open_caches(workspace) as caches:
            return environment.readable_files((*self._visible, *caches))

    @contextmanager
    def prepare(self, job: SandboxCommand) -> Iterator[SpawnSpec]:
        """Prepare the command and its launcher. Raises `ToolError`."""
        if os.geteuid() == 0:
            raise ToolError(load_prompt("sandbox/root"))
        if job.forbidden_paths:
            raise ToolError(load_prompt("sandbox/closed"))
        if job.locked_paths and not job.read_only:
            raise ToolError(render_prompt("sandbox/locked", path=str(job.locked_paths[0])))
        if job.egress is not None and not self.supports_egress:
            raise ToolError(load_prompt("sandbox/no_way_out"))
        for target in () if job.egress is None else job.egress.targets:
            raise ToolError(render_prompt("sandbox/no_targets", target=target))
        for service in () if job.egress is None else job.egress.services:
            if service.path is not None:
                raise ToolError(render_prompt("sandbox/no_unix", service=service))
            if ":" in service.host:
                raise ToolError(render_prompt("sandbox/no_ipv6", service=service))
        with ExitStack() as stack:
            private = _temporary(job) or stack.enter_context(scratch_folder("kore-exec-"))
            with suppress(FileExistsError):
                os.mkdir(private / "home", 0o700)
            git = str(private.parent / "git") if job.temporary is not None else ""
            _write_files(job.git_defaults.files(git) if git else {})
            opened = dict(stack.enter_context(job.open_folders()))
            caches = stack.enter_context(self.toolchains.open_caches(job.workspace))
            # Landlock cannot hide a part of a folder.
            added = stack.enter_context(job.open_added_folders(may_mask=False))
            opened |= {**caches, **added}
            if job.store is not None and not job.read_only:
                for path in job.store.writable_folders:
                    opened[path] = stack.enter_context(open_folder(path))
            reader, writer = os.pipe()
            try:
                with os.fdopen(writer, "wb") as file:
                    visible_folders = tuple(
                        folder for folder in job.folders if folder.path in added
                    )
                    job = replace(job, folders=visible_folders)
                    plan = self._plan(job, str(private), git, opened, (*caches, *added))
                    file.write(marshal.dumps(plan))
                root = str(Path(__file__).parents[4])
                argv = (self.python, "-I", "-S", "-c", _START, root, str(reader))
                stdin = _input(job)
                pass_fds = (reader, *opened.values(), *([] if stdin is None else [stdin]))
                pass_fds += () if job.report is None else job.report.descriptors
                yield SpawnSpec(argv, {}, Path("/"), pass_fds, is_supervised=True)
            finally:
                os.close(reader)

    def _plan(
        self,
        job: SandboxCommand,
        private: str,
        git: str,
        opened: Mapping[Path, int],
        read_only: Iterable[Path],
    ) -> dict[str, Any]:
        """Return the launcher's plan.

        `opened` contains descriptors of the workspace, of the folders of its outer store and of the
        `read_only` folders, so replacing one with a link has no effect. `git` is the folder with
        git's settings, or ''.
        """
        workspace = str(job.workspace)
        env = environment.command_environment(os.environ, f"{private}/home", self.readable_programs)
        env |= {
            **self.toolchains.variables_of(job),
            **environment.variables_of_command(job),
            **(job.git_defaults.variables(git) if git else {}),
            **job.variables,
        }
        if job.report is not None:
            env |= job.report.variables(job.command, environment.shell())
        writable = [private] if job.read_only else [workspace, private]
        writable += [str(folder.path) for folder in job.writable_folders]
        store = () if job.store is None or job.read_only else job.store.writable_folders
        proxy = None if job.egress is None else job.egress.listener()
        if proxy is not None and job.reaches_hosts:
            env |= environment.proxy_variables(proxy[0])
        services = () if job.egress is None else job.egress.services
        readable = [*([git] if git else []), *map(str, read_only)]
        if job.store is not None:
            readable.append(str(job.store.folder))
        rules = self._rules(workspace, [*writable, *map(str, store)], readable)
        filter_rules = rules_beyond_landlock(self.abi, connects=proxy is not None)
        return {
            "command": job.command,
            "shell": environment.shell(),
            "report": () if job.report is None else job.report.descriptors,
            "workspace": opened[job.workspace],
            "opened": {str(path): descriptor for path, descriptor in opened.items()},
            "folder": os.path.relpath(job.folder, workspace),
            "stdin": _input(job),
            "environment": {**env, "TMPDIR": private, **orphan_processes.process_mark()},
            "writable": writable,
            "proxy": proxy,
            "services": [(service.host, service.port) for service in services],
            "rules": rules,
            "readable": [
                path if Path(path) in opened else os.path.realpath(path) for path, _ in rules
            ],
            "handled": (self._all, _TCP if self.abi >= _TCP_SINCE else 0, self._scopes),
            "filter": program(filter_rules),
            "supervised": supervised_calls(filter_rules),
            "processes": self.limits.processes,
            "limits": [
                ("RLIMIT_CORE", 0),
                ("RLIMIT_CPU", self.limits.cpu_s),
                ("RLIMIT_NOFILE", self.limits.open_files),
                ("RLIMIT_FSIZE", self.limits.file_bytes),
                ("RLIMIT_DATA", self.limits.memory_bytes),
            ],
        }

    @property
    def _all(self) -> int:
        """All file access rights of this version; rights that are not granted are denied."""
        return _FIRST | sum(bit for since, bit in _SINCE.items() if self.abi >= since)

    @property
    def _scopes(self) -> int:
        return _SCOPES if self.abi >= _SCOPES_SINCE else 0

    def _rules(
        self, workspace: str, writable: list[str], readable: list[str]
    ) -> list[tuple[str, int]]:
        rules = [(path, self._all & ~_MAKE_DEVICES) for path in writable]
        programs = environment.readable_programs(self._visible)
        rules += [(str(path), _READ) for path in (workspace, *programs)]
        rules += [(path, _READ) for path in readable]
        rules += [
            (path, _READ_FILE | _READ_DIR) for path in (*environment.configuration(), *_FACTS)
        ]
        rules += [
            (path, _READ_FILE | (_WRITE_FILE if write else 0)) for path, write in _DEVICES.items()
        ]
        return [
            (path, rights & (self._all if os.path.isdir(path) else self._all & _ON_FILES))
            for path, rights in rules
            if os.path.exists(path)
        ]


def _input(job: SandboxCommand) -> int | None:
    """Return the command's input; the launcher closes all other descriptors."""
    return job.stdin if job.terminal is None else job.terminal


def _write_files(files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)


def _temporary(job: SandboxCommand) -> Path | None:
    return None if job.temporary is None else job.temporary / "tmp"


def kernel_abi() -> int:
    """Return the kernel's Landlock version; 0 if it is missing or disabled."""
    # landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION), the same number on all
    # architectures.
    version: int = ctypes.CDLL(None).syscall(444, None, 0, 1)
    return max(0, version)
