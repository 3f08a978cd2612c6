"""Guard against new files in git stores that git would run or read as configuration.

Files that existed before are read-only to a command in a sandbox. New files are known only
afterwards: they are renamed to a name that git does not read. Without this, a command that knows
strangers' words could make the person's own git run a program outside of the sandbox.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.security.files.quarantine import set_aside
from agent.security.files.safe_open import read_regular
from agent.security.shell.git_safety import MAX_BYTES, is_plain_configuration
from agent.tools.shell.mount_restrictions import find_git_stores

# Git runs the hooks and reads configuration from the others.
_CONTROL_FILES = ("config", "config.worktree", "commondir", "hooks")
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
                moved.append((str(path.relative_to(self._root)), new))
        return moved

    def _planted(self) -> Iterator[Path]:
        for store in dict.fromkeys([*self._existing, *find_git_stores(self._root)]):
            before = self._existing.get(store)
            if before is not None:
                yield from (store / name for name in sorted(_control_files(store) - before))
            elif store.is_dir() and not store.is_symlink():
                yield from _unsafe_parts(store)
            elif not self._is_worktree(store):
                # A file or a link that points to a store anywhere.
                yield store

    def _is_worktree(self, pointer: Path) -> bool:
        """Return whether it is the `.git` file of a worktree of a store that existed before."""
        try:
            store = _pointed_at(pointer, "gitdir: ")
            common = _pointed_at(store / "commondir")
        except (OSError, ValueError):
            return False
        return common in self._existing and store.parent == common / "worktrees"


def _pointed_at(pointer: Path, prefix: str = "") -> Path:
    """Return the real path that a file of git names. Raises OSError or ValueError."""
    text = os.fsdecode(read_regular(pointer, MAX_BYTES))
    return Path(os.path.realpath(pointer.parent / text.removeprefix(prefix).strip()))


def _control_files(store: Path) -> frozenset[str]:
    return frozenset(name for name in _CONTROL_FILES if os.path.lexists(store / name))


def _unsafe_parts(store: Path) -> Iterator[Path]:
    """Yield the parts of a new store that git would run."""
    for name in ("config.worktree", "commondir"):
        if os.path.lexists(store / name):
            yield store / name
    config = store / "config"
    if not is_plain_configuration(config):
        yield config
    hooks = store / "hooks"
    if hooks.is_symlink() or (hooks.is_dir() and any(map(_is_run, os.listdir(hooks)))):
        yield hooks


def _is_run(name: str) -> bool:
    return not name.endswith(_SAMPLE)
