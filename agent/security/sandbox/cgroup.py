"""Control groups that limit the processes and memory of commands, if root can create them.

RLIMIT_NPROC does not limit root.
"""

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from agent.records import frozen

_PREFIX = "kore-command-"
# An empty group older than this is a leftover.
_MIN_LEFTOVER_AGE_S = 60
_ROOT = Path("/sys/fs/cgroup")
MEMBERS = "cgroup.procs"
# Files that count processes killed for memory, in either version.
_KILLS = ("memory.events", "memory.oom_control")


@frozen
class GroupLimits:
    """Limits for the processes of a group."""

    processes: int
    memory_bytes: int


def delegated_trees(root: Path = _ROOT) -> tuple[Path, ...]:
    """Return the trees in which groups can limit processes and, if the kernel supports it, memory.

    Version 1 has one tree per resource, version 2 one tree for all.
    """
    if _is_delegated(root) and "pids" in _read_text(root / "cgroup.subtree_control"):
        return (root,)
    pids, memory = root / "pids", root / "memory"
    if not _is_delegated(pids):
        return ()
    return (pids, memory) if _is_delegated(memory) else (pids,)


def has_run_out_of_memory(groups: Sequence[Path]) -> bool:
    """Return whether the kernel has killed a process in these groups for its memory use."""
    counters = [_read_text(group / name).split() for group in groups for name in _KILLS]
    return any(
        words[words.index("oom_kill") + 1] != "0" for words in counters if "oom_kill" in words
    )


def _is_delegated(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and (folder / MEMBERS).exists()


def _read_text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


@contextmanager
def with_process_limit(folders: Sequence[Path], bounds: GroupLimits) -> Iterator[tuple[Path, ...]]:
    """Create a group in each tree; a process joins by writing its ID to the `MEMBERS` file.

    Raises `OSError` if a group cannot be created. A group that still has processes outlives the
    context and is removed by a later call.
    """
    with ExitStack() as stack:
        yield tuple(stack.enter_context(_group(folder, bounds)) for folder in folders)


@contextmanager
def _group(folder: Path, bounds: GroupLimits) -> Iterator[Path]:
    now = time.monotonic()  # relative to boot, like groups, because the wall clock may be changed
    for old in folder.glob(f"{_PREFIX}*-*"):
        with suppress(OSError, ValueError):
            if int(old.name.removeprefix(_PREFIX).partition("-")[0]) < now - _MIN_LEFTOVER_AGE_S:
                old.rmdir()
    group = folder / f"{_PREFIX}{now:.0f}-{secrets.token_hex(4)}"
    group.mkdir()
    try:
        for name, limit in {
            "pids.max": bounds.processes,
            "memory.max": bounds.memory_bytes,
            "memory.swap.max": 0,
            "memory.oom.group": 1,
            "memory.limit_in_bytes": bounds.memory_bytes,
            "memory.memsw.limit_in_bytes": bounds.memory_bytes,
        }.items():
            if (group / name).exists():
                (group / name).write_text(str(limit))
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()
