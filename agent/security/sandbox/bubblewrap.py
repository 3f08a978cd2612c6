"""Commands in namespaces of their own, made by bubblewrap (`bwrap`)."""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from agent.errors import ToolError
from agent.frozen import frozen
from agent.prompts import fill, load
from agent.sandbox import Job, Limits, Spawn
from agent.security.sandbox import cgroup, view
from agent.security.sandbox.seccomp import NAMESPACED, program
from agent.security.sandbox.watch import watched

_HOME = f"{view.TEMPORARY}/home"
# Of a network that has no other listener.
_PORT = 3128
# Each takes a descriptor, of which a process has 1,024 at first; bwrap takes 9,000 words.
_MOST_MOUNTS = 200
_MOST_HIDDEN = 1000
# Options that not every version knows, of those that are used here.
FEATURES = ("--disable-userns", "--ro-bind-fd", "--size")
_NAMESPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
    "--unshare-cgroup-try", "--new-session", "--die-with-parent", "--cap-drop", "ALL",
)  # fmt: skip


@frozen
class Bubblewrap:
    """`program` is the path of bwrap, `features` those of `FEATURES` that it knows.

    A command sees the programs of this machine and a few files of /etc, all read-only, its
    workspace, a /tmp and a /proc of its own; no other process, no other file, and no network but
    its own, in which the way out of its job listens.
    """

    name: ClassVar[str] = "bwrap"
    confines: ClassVar[bool] = True
    leads_out: ClassVar[bool] = True

    program: str
    features: frozenset[str]
    limits: Limits = field(default_factory=Limits)
    further: tuple[Path, ...] = ()
    groups: Path | None = field(default_factory=lambda: None if os.geteuid() else cgroup.tree())

    @contextmanager
    def prepare(self, job: Job) -> Iterator[Spawn]:
        """The command in its namespaces. Raises `ToolError`."""
        workspace = Path(os.path.realpath(job.workspace))
        if workspace == Path("/"):
            raise ToolError("The whole file system cannot be a workspace; choose a folder.")
        with ExitStack() as stack, ExitStack() as lent:
            setup = _Setup(lent, [*_NAMESPACES])
            if "--disable-userns" in self.features:
                setup.words.append("--disable-userns")
            setup.words += ["--seccomp", str(setup.given(program(NAMESPACED)))]
            self._base(setup)
            bind = "--ro-bind" if job.read_only else "--bind"
            setup.words += [bind, str(workspace), str(workspace)]
            self._cover(setup, job, workspace)
            setup.words += ["--remount-ro", "/", "--chdir", str(job.folder)]
            seen = view.programs(self.further)
            env = view.environment(os.environ, _HOME, seen) | view.of_job(job)
            start = ["/bin/sh", "-c", job.command]
            if job.way_out is not None:
                env |= view.proxied(_PORT)
                start = [*self._inlet(), str(setup.own(job.way_out.channel())), str(_PORT)]
                start.append(job.command)
            for name, value in env.items():
                setup.words += ["--setenv", name, value]
            group = self._group(stack)
            argv = [self.program, *setup.words, "--", "/bin/sh", "-c", self._limited(), "sh"]
            if job.stdin is not None:
                setup.fds.append(job.stdin)
            words = watched([*argv, *start], group, job.stdin)
            yield Spawn(words, {}, Path("/"), tuple(setup.fds), lent=lent)

    def _inlet(self) -> list[str]:
        """The words of the program that hands a listener out, without its arguments."""
        python = view.python(view.programs(self.further))
        if python is None:
            raise ToolError(load("sandbox/no_python"))
        text = Path(__file__).with_name("inlet.py").read_text("utf-8")
        return [python, "-I", "-S", "-c", text]

    def _base(self, setup: "_Setup") -> None:
        words = setup.words
        for path in view.programs(self.further):
            if path.is_symlink():
                words += ["--symlink", os.readlink(path), str(path)]
            else:
                words += ["--ro-bind", str(path), str(path)]
        for name in view.CONFIGURATION:
            words += ["--ro-bind-try", name, name]
        for name, text in _people().items():
            words += ["--ro-bind-data", str(setup.given(text.encode())), name]
        words += ["--proc", "/proc", "--dev", "/dev"]
        for folder in ("/dev/shm", view.TEMPORARY):  # noqa: S108 - file systems of its own
            if "--size" in self.features:
                words += ["--size", str(self.limits.file_bytes)]
            words += ["--tmpfs", folder]
        words += ["--remount-ro", "/dev", "--dir", _HOME]

    def _cover(self, setup: "_Setup", job: Job, workspace: Path) -> None:
        """Freeze and close parts of the workspace.

        What covers a path has an effect as long as nobody renames a folder above it: so each of
        these is a mount of its own, which cannot be renamed. Where that takes too many, or cannot
        be done, the uppermost of them is frozen as a whole.
        """
        hidden = (*job.closed, *job.masked)
        if len(hidden) > _MOST_HIDDEN:
            raise ToolError(fill("sandbox/too_many", count=len(hidden), limit=_MOST_HIDDEN))
        by_descriptor = "--ro-bind-fd" in self.features
        frozen: set[Path] = set() if job.read_only else set(job.frozen)
        pins: set[Path] = set()
        for path in () if job.read_only else (*hidden, *job.frozen):
            above = path.parents[: len(path.relative_to(workspace).parts) - 1]
            if by_descriptor:
                pins.update(above)
            elif path not in job.frozen:
                frozen.update(above[-1:])
        if len(pins) + len(frozen) > _MOST_MOUNTS:
            frozen = {workspace / path.relative_to(workspace).parts[0] for path in (*pins, *frozen)}
            pins = set()
        for path in sorted(pins):
            setup.pin(path)
        for path in sorted(frozen):
            setup.freeze(path, by_descriptor=by_descriptor)
        for path in sorted(hidden):
            if path.is_symlink() or path.is_file():
                setup.words += ["--ro-bind", "/dev/null", str(path)]
            elif path.is_dir():
                setup.words += ["--tmpfs", str(path), "--remount-ro", str(path)]

    def _limited(self) -> str:
        limits = {
            "c": 0,
            "n": self.limits.open_files,
            "f": self.limits.file_bytes // 512,
            "d": self.limits.memory_bytes // 1024,
            "u": self.limits.processes,
        }
        return f'{{ {view.limited(limits)}; }} 2>/dev/null; exec "$@"'

    def _group(self, stack: ExitStack) -> Path | None:
        if self.groups is None:
            return None
        try:
            # Two more, for what watches and what reaps.
            return stack.enter_context(cgroup.bounded(self.groups, self.limits.processes + 4))
        except OSError as exc:
            raise ToolError("No control group could be made to bound the command.") from exc


@dataclass(slots=True)
class _Setup:
    """The words for bwrap so far, and the descriptors that they speak of."""

    stack: ExitStack
    words: list[str]
    fds: list[int] = field(default_factory=list)

    def given(self, data: bytes) -> int:
        """A descriptor to read this from; small enough to wait in a pipe."""
        reader, writer = os.pipe()
        self.own(reader)
        with os.fdopen(writer, "wb") as file:
            file.write(data)
        return reader

    def pin(self, path: Path) -> None:
        """Mount a folder on itself, so that nobody renames it."""
        try:
            found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return
        self.words += ["--bind-fd", str(self.own(found)), str(path)]

    def freeze(self, path: Path, *, by_descriptor: bool) -> None:
        """Let it be read only; a link is left as it is, it leads nowhere else.

        By its name, another command could put a link in its place meanwhile and so have any
        folder of this machine shown: then the folder is shown empty.
        """
        try:
            found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return
        self.own(found)
        mode = os.fstat(found).st_mode
        if stat.S_ISLNK(mode):
            return
        if by_descriptor:
            self.words += ["--ro-bind-fd", str(found), str(path)]
        elif stat.S_ISDIR(mode):
            self.words += ["--tmpfs", str(path), "--remount-ro", str(path)]
        else:
            self.words += ["--ro-bind", "/dev/null", str(path)]

    def own(self, descriptor: int) -> int:
        """Pass it on, and close it in the end."""
        self.stack.callback(os.close, descriptor)
        self.fds.append(descriptor)
        return descriptor


def _people() -> dict[str, str]:
    """Files that give names to the ids of this user, and to no others."""
    uid, gid = os.geteuid(), os.getegid()
    return {
        "/etc/passwd": f"kore:x:{uid}:{gid}::{_HOME}:/bin/sh\n",
        "/etc/group": f"kore:x:{gid}:\n",
        "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    }


def version_words(help_text: str) -> frozenset[str]:
    """The features that `bwrap --help` tells of."""
    return frozenset(feature for feature in FEATURES if f"{feature} " in f"{help_text} ")
