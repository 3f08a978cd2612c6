"""Layout of git stores: submodules, worktrees, and stores that lie outside of their folder.

See https://git-scm.com/docs/gitrepository-layout.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from agent.security.files.safe_open import read_regular
from agent.tools.repositories.store_files import LimitExceeded

GITDIR = "gitdir: "
_MAX_MODULE_ENTRIES = 10_000
_MAX_POINTER_BYTES = 5_000


def is_store(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def module_stores(store: Path) -> Iterator[Path]:
    """Yield the stores of submodules, outermost first; their names may have several parts.

    Raises OSError and `LimitExceeded`.
    """
    remaining = _MAX_MODULE_ENTRIES
    pending = [store / "modules"]
    while pending:
        folder = pending.pop()
        inner = _folders_in(folder)
        remaining -= len(inner)
        if remaining < 0:
            raise LimitExceeded
        for path in inner:
            if is_store(path):
                yield path
                pending.append(path / "modules")
            else:
                pending.append(path)


def worktree_entries(store: Path) -> list[Path]:
    """Return the folders in which a store keeps the state of its linked worktrees.

    Raises OSError.
    """
    return _folders_in(store / "worktrees")


def pointed_at(pointer: Path, prefix: str = "") -> Path:
    """Return the real path that a file of git names. Raises OSError or ValueError."""
    text = os.fsdecode(read_regular(pointer, _MAX_POINTER_BYTES, follow_links=False))
    if not text.startswith(prefix):
        raise ValueError(f"{pointer} does not begin with {prefix!r}")
    return Path(os.path.realpath(pointer.parent / text.removeprefix(prefix).strip()))


def common_store(entry: Path) -> Path | None:
    """Return the store of a worktree, given the folder with its state; None for anything else."""
    try:
        common = pointed_at(entry / "commondir")
    except (OSError, ValueError):
        return None
    return common if entry.parent == common / "worktrees" else None


def points_to_worktree(pointer: Path) -> bool:
    """Return whether a `.git` file leads to the state of a worktree that names it in turn."""
    try:
        entry = pointed_at(pointer, GITDIR)
        return common_store(entry) is not None and pointed_at(entry / "gitdir") == pointer
    except (OSError, ValueError):
        return False


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as scan:
            return [Path(entry.path) for entry in scan if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
