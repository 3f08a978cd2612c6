"""Control groups of commands, where root may make them: a bound on processes, by which RLIMIT_NPROC
does not bind root, and on the memory of all of them together."""

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from agent.records import frozen

_PREFIX = "kore-command-"
# A group without members that is older than this is left over.
_FRESH_S = 60
_ROOT = Path("/sys/fs/cgroup")
MEMBERS = "cgroup.procs"
# Where either version says how many processes were killed for memory.
_KILLS = ("memory.events", "memory.oom_control")


@frozen
class GroupLimits:
    """What the processes of one group may come to."""

    processes: int
    memory_bytes: int


def delegated_trees(root: Path = _ROOT) -> tuple[Path, ...]:
    """Where groups can be made that count processes, and memory if the kernel has that, too.

    Version 1 has a tree for each, version 2 one tree for everything.
    """
    if _takes(root) and "pids" in _read_text(root / "cgroup.subtree_control"):
        return (root,)
    pids, memory = root / "pids", root / "memory"
    if not _takes(pids):
        return ()
    return (pids, memory) if _takes(memory) else (pids,)


def has_run_out(groups: Sequence[Path]) -> bool:
    """Whether the kernel has killed a process of these for the memory that they took."""
    words = [_read_text(group / name).split() for group in groups for name in _KILLS]
    return any(each[each.index("oom_kill") + 1] != "0" for each in words if "oom_kill" in each)


def _takes(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and (folder / MEMBERS).exists()


def _read_text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


@contextmanager
def with_process_limit(folders: Sequence[Path], bounds: GroupLimits) -> Iterator[tuple[Path, ...]]:
    """A group in each of these trees: the file `MEMBERS` of each takes the id of the process that
    moves in.

    Raises OSError when one cannot be made. A group with a process in it outlives the block and is
    removed with a later one.
    """
    with ExitStack() as stack:
        yield tuple(stack.enter_context(_group(folder, bounds)) for folder in folders)


@contextmanager
def _group(folder: Path, bounds: GroupLimits) -> Iterator[Path]:
    now = time.monotonic()  # since the boot, as groups are; a clock may be set
    for old in folder.glob(f"{_PREFIX}*-*"):
        with suppress(OSError, ValueError):
            if int(old.name.removeprefix(_PREFIX).partition("-")[0]) < now - _FRESH_S:
                old.rmdir()
    group = folder / f"{_PREFIX}{now:.0f}-{secrets.token_hex(4)}"
    group.mkdir()
    try:
        for name, most in {
            "pids.max": bounds.processes,
            "memory.max": bounds.memory_bytes,
            "memory.swap.max": 0,
            "memory.oom.group": 1,
            "memory.limit_in_bytes": bounds.memory_bytes,
            "memory.memsw.limit_in_bytes": bounds.memory_bytes,
        }.items():
            if (group / name).exists():
                (group / name).write_text(str(most))
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()
