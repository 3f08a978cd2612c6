"""Guard against new files in git stores that git would run or read as configuration.

Files that existed before are read-only for a command in a sandbox. New files are known only
afterwards: they are renamed to a name that git does not read. Without this, a command that knows
strangers' words could make the person's own git run a program outside of the sandbox.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from agent.security.files.git_layout import GITDIR, common_store, pointed_at, worktree_entries
from agent.security.files.instruction_files import GIT_CONTROL_FILES, WORKTREE_FILES
from agent.security.files.quarantine import set_aside
from agent.security.shell.git_safety import is_plain_configuration
from agent.tools.shell.mount_restrictions import find_git_stores

_SAMPLE = ".sample"


class GitStoreGuard:
    """Guard for one command: `begin` with the existing stores before it, `end` after it."""

    def __init__(self, workspace: Path) -> None:
        self._root = workspace
        self._existing: dict[Path, frozenset[str]] = {}

    def begin(self, stores: Sequence[Path]) -> None:
        """Record the content of the stores. May block."""
        self._existing = {store: _control_files(store) for store in stores}

    def end(self) -> Sequence[tuple[str, str]]:
        """Rename new files that git would obey; return old and new names. May block."""
        moved = []
        for path in self._planted():
            if (new := set_aside(path)) is not None:
                is_inside = path.is_relative_to(self._root)
                moved.append((str(path.relative_to(self._root) if is_inside else path), new))
        return moved

    def _planted(self) -> Iterator[Path]:
        stores = dict.fromkeys([*self._existing, *find_git_stores(self._root)])
        for store in stores:
            before = self._existing.get(store)
            if before is not None:
                new = sorted(_control_files(store) - before)
                yield from (store / name for name in new if not self._is_harmless(store, name))
            elif store.is_dir() and not store.is_symlink():
                yield from self._unsafe_parts(store)
            elif not _leads_to(stores, store):
                yield store

    def _is_harmless(self, store: Path, name: str) -> bool:
        """Return whether `git worktree add` may have written a control file of a store."""
        file = store / name
        if file.parent.parent != store / "worktrees":
            return False
        match file.name:
            case "config.worktree":
                return is_plain_configuration(file)
            case "commondir":
                return common_store(file.parent) == store
            case "gitdir":
                # A worktree counts as the owner's if its repository does.
                return self._is_inside(file)
        return False

    def _is_inside(self, pointer: Path) -> bool:
        try:
            return pointed_at(pointer).is_relative_to(self._root)
        except (OSError, ValueError):
            return False

    def _unsafe_parts(self, store: Path) -> Iterator[Path]:
        """Yield the parts of a new store that git would run or read as configuration."""
        for name in sorted(_control_files(store) - {"config", "hooks"}):
            if not self._is_harmless(store, name):
                yield store / name
        if not is_plain_configuration(store / "config"):
            yield store / "config"
        hooks = store / "hooks"
        if hooks.is_symlink() or (hooks.is_dir() and _has_hook(hooks)):
            yield hooks


def _leads_to(stores: Collection[Path], pointer: Path) -> bool:
    """Return whether a `.git` file refers to one of these stores, directly or as a worktree."""
    try:
        store = pointed_at(pointer, GITDIR)
    except (OSError, ValueError):
        return False
    return store in stores or common_store(store) in stores


def _control_files(store: Path) -> frozenset[str]:
    """Return the names of the control files of a store and of its worktrees."""
    names = [*GIT_CONTROL_FILES]
    try:
        entries = worktree_entries(store)
    except OSError:
        entries = []
    names += [f"worktrees/{entry.name}/{name}" for entry in entries for name in WORKTREE_FILES]
    return frozenset(name for name in names if os.path.lexists(store / name))


def _has_hook(folder: Path) -> bool:
    """Return whether git could run a file in the folder, even if Kore cannot list it."""
    try:
        return any(not name.endswith(_SAMPLE) for name in os.listdir(folder))
    except OSError:
        return True
