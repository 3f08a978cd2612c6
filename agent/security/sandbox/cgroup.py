"""A bound on processes for root, whom RLIMIT_NPROC does not bind: a control group of its own."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "kore-exec-"
# So old is no group that nobody has moved into yet, whoever made it.
_FRESH_S = 60
# Version 1 has a tree for processes alone, version 2 one tree for everything.
_TREES = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))


def tree() -> Path | None:
    """Where groups that count processes can be made, or None."""
    return next((folder for folder in _TREES if _counts(folder)), None)


def _counts(folder: Path) -> bool:
    try:
        own = folder.name == "pids" or "pids" in (folder / "cgroup.subtree_control").read_text()
    except OSError:
        return False
    return own and os.access(folder, os.W_OK) and (folder / "cgroup.procs").exists()


@contextmanager
def bounded(folder: Path, processes: int) -> Iterator[Path]:
    """A group for this many processes: its file takes the id of whoever moves in.

    Raises OSError when it cannot be made. A group with somebody in it outlives the block and is
    removed with a later one.
    """
    now = time.time()
    for old in folder.glob(f"{_PREFIX}*-*"):
        with suppress(OSError, ValueError):
            if int(old.name.removeprefix(_PREFIX).partition("-")[0]) < now - _FRESH_S:
                old.rmdir()
    group = folder / f"{_PREFIX}{now:.0f}-{secrets.token_hex(4)}"
    group.mkdir()
    try:
        (group / "pids.max").write_text(str(processes))
        yield group / "cgroup.procs"
    finally:
        with suppress(OSError):
            group.rmdir()
