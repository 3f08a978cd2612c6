"""Layout of git repositories: submodules, worktrees, and stores outside of their folder.

See https://git-scm.com/docs/gitrepository-layout.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agent.records import frozen
from agent.security.files.instruction_files import GIT
from agent.security.files.safe_open import read_regular

GITDIR = "gitdir: "
_MAX_MODULE_ENTRIES = 10_000
_MAX_POINTER_BYTES = 5_000
_MAX_CONFIG_BYTES = 65_536


class TooManyFolders(Exception):
    """Error for a store with too many submodule folders to search."""


def resembles_store(folder: Path) -> bool:
    """Return whether git may treat a folder as a store, so that it must be protected."""
    # `commondir` names the folder of its objects, if they are elsewhere. HEAD may be a dangling
    # link.
    return os.path.lexists(folder / "HEAD") and any(
        os.path.lexists(folder / name) for name in ("objects", "commondir")
    )


def is_store(folder: Path) -> bool:
    """Return whether a folder is certainly a store without links in it.

    Only such a store may be opened for commands.
    """
    try:
        head = os.lstat(folder / "HEAD")
        parts = [os.lstat(folder / name) for name in ("objects", "refs")]
    except OSError:
        return False
    return stat.S_ISREG(head.st_mode) and all(stat.S_ISDIR(part.st_mode) for part in parts)


def module_stores(store: Path) -> Iterator[Path]:
    """Yield the stores of submodules, outermost first; their names may have several parts.

    Raises OSError and `TooManyFolders`.
    """
    remaining = _MAX_MODULE_ENTRIES
    # Each worktree has its own submodules.
    pending = [place / "modules" for place in (store, *worktree_entries(store))]
    while pending:
        folder = pending.pop()
        inner = _folders_in(folder)
        remaining -= len(inner)
        if remaining < 0:
            raise TooManyFolders
        for path in inner:
            if resembles_store(path):
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
    """Return the real path that a file of git names.

    Git writes paths without links, and a path with links is rejected, because a link may change
    before the path is used. Raises OSError or ValueError.
    """
    text = os.fsdecode(read_regular(pointer, _MAX_POINTER_BYTES, follow_links=False))
    if not text.startswith(prefix):
        raise ValueError(f"{pointer} does not begin with {prefix!r}")
    path = os.path.normpath(pointer.parent / text.removeprefix(prefix).strip())
    if os.path.realpath(path) != path:
        raise ValueError(f"{path} contains a link")
    return Path(path)


def common_store(entry: Path) -> Path | None:
    """Return the store of a worktree, given its state folder; None for any other folder."""
    try:
        common = pointed_at(entry / "commondir")
    except (OSError, ValueError):
        return None
    is_own = entry.parent == common / "worktrees" and is_store(common)
    return common if is_own else None


def points_to_worktree(pointer: Path) -> bool:
    """Return whether a `.git` file and the state folder of a worktree refer to each other."""
    try:
        entry = pointed_at(pointer, GITDIR)
        return common_store(entry) is not None and pointed_at(entry / "gitdir") == pointer
    except (OSError, ValueError):
        return False


@frozen
class OuterStore:
    """Git store outside of its folder.

    `own` contains only the state of the folder (HEAD, index), `common` the objects and refs. For a
    submodule they are the same.
    """

    own: Path
    common: Path


def find_outer_store(folder: Path) -> OuterStore | None:
    """Return the store that the `.git` file of a real folder leads to, if it lies elsewhere.

    Only a store that refers back to the folder counts, because commands can write the `.git` file
    and could point it at any repository of the machine. Git writes both references, for worktrees
    and submodules. All files must belong to the same user. May block.
    """
    try:
        own = pointed_at(folder / GIT, GITDIR)
        common = common_store(own)
        if common is None:
            common, is_named = own, is_store(own) and _worktree_of(own) == folder
        else:
            is_named = pointed_at(own / "gitdir") == folder / GIT
        owners = {os.lstat(path).st_uid for path in (folder, own, common)}
    except (OSError, ValueError):
        return None
    # Worktrees of a bare repository may be directly in it, between git's own entries.
    is_deep = folder.is_relative_to(common) and folder.parent != common
    is_apart = not common.is_relative_to(folder) and not is_deep
    return OuterStore(own, common) if is_named and is_apart and len(owners) == 1 else None


def repository_store(folder: Path) -> Path | None:
    """Return the store of the repository of a checkout (a real folder), or None."""
    git = folder / GIT
    if git.is_dir() and not git.is_symlink():
        return git
    store = find_outer_store(folder)
    return None if store is None else store.common


def is_bare(store: Path) -> bool:
    """Return whether a store says that it has no main checkout, or has no place for one."""
    try:
        return store.name != GIT or _core_value(store, "bare") == "true"
    except OSError:
        return False


def _worktree_of(store: Path) -> Path | None:
    """Return the folder that the configuration of a submodule's store names as its worktree.

    Raises OSError.
    """
    worktree = _core_value(store, "worktree")
    return None if worktree is None else Path(os.path.realpath(store / worktree))


def _core_value(store: Path, key: str) -> str | None:
    """Return a plain value in the section "core" of a store's configuration. Raises OSError."""
    text = read_regular(store / "config", _MAX_CONFIG_BYTES, follow_links=False)
    section, value = "", None
    for line in os.fsdecode(text).splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section == "[core]" and line.replace(" ", "").startswith(f"{key}="):
            value = line.split("=", 1)[1].strip().strip('"')
    return value


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as scan:
            return [Path(entry.path) for entry in scan if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
