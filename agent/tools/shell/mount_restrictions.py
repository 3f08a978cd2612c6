"""Paths of a workspace that a command in a sandbox must not see or change."""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity
from agent.security.files.git_layout import (
    TooManyFolders,
    find_outer_store,
    module_stores,
    pointed_at,
    points_to_worktree,
    worktree_entries,
)
from agent.security.files.instruction_files import (
    CONFIGURATIONS,
    GIT,
    GIT_CONTROL_FILES,
    GIT_FILES,
    PROMPT_FILES,
    PROMPT_FOLDERS,
    WORKTREE_FILES,
    is_project_instructions,
)
from agent.security.files.paths import normalize_filename
from agent.security.files.private_places import PRIVATE_PLACES
from agent.security.sandbox.base import StoreMount
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.files.workspace_scope import OWN_FOLDER, OWNER_TASK_FILES, PRIVATE_NAMES

MAX_ENTRIES = 1_000_000
# Limits for a folder outside the workspace: each command walks through it.
_MAX_ADDED_ENTRIES, _MAX_ADDED_MASKS = 200_000, 200

TASK_FILES = frozenset(normalize_filename(name) for name in OWNER_TASK_FILES)

_PRIVATE = frozenset(normalize_filename(name) for name in (*PRIVATE_NAMES, OWN_FOLDER))

# Folders of third-party packages: installers rename their contents, and people never open them as
# projects. Only their own entries are checked.
_PACKAGES = frozenset({"node_modules", "site-packages"})

# Each takes several mounts; beyond this number, the stores of submodules are read-only as a whole.
_MAX_MODULES = 20

# A folder with both contains git objects, under any name.
_STORE = frozenset({"HEAD", "objects"})

# Folders of a store that git and git LFS write to during ordinary work, and those whose entries are
# restricted one by one. A worktree inside a bare store may have such a name.
_STORE_FOLDERS = GIT_FILES | {"objects", "refs", "reftable", "logs", "info", "lfs", "rr-cache"}


@frozen
class MountRestrictions:
    """Existing real paths in the workspace, as for `SandboxCommand`.

    `git_stores` are the folders with git objects, and the files that lead to one. `outer_store` is
    the workspace's own store if it lies elsewhere.
    """

    forbidden_paths: tuple[Path, ...] = ()
    locked_paths: tuple[Path, ...] = ()
    masked_paths: tuple[Path, ...] = ()
    read_only_paths: tuple[Path, ...] = ()
    git_stores: tuple[Path, ...] = ()
    outer_store: StoreMount | None = None

    @property
    def all_git_stores(self) -> tuple[Path, ...]:
        outer = () if self.outer_store is None else (self.outer_store.folder,)
        return (*self.git_stores, *outer)


def mount_restrictions(settings: ToolSettings, call: CallContext) -> MountRestrictions:
    """Return the restrictions of a call.

    Kore's own files are hidden from every command, other people's data from commands of anyone but
    the owner. If anything is hidden, git's stores are hidden too, because they contain older
    versions of it. The policy file can be read, but not changed. Sources of the system prompt and
    files that other programs run automatically are frozen; only file tools can change them, under
    the policy. Blocked paths are covered at any depth, except `.git`, where only hooks and
    configuration are frozen. After strangers' words, the files that lead to worktrees and the
    instructions for later turns (HEARTBEAT.md, the checklist) are frozen too. A folder that Kore
    cannot read is hidden. May block: it walks through the workspace. Raises `ToolError` if the
    workspace has more than `MAX_ENTRIES` entries: otherwise a command could create a flood of files
    to uncover the paths behind them.
    """
    root = call.workspace
    closed = _existing_below(root, settings.off_limits)
    locked = _existing_below(root, settings.fixed_files)
    names = os.listdir(root)
    if not call.owner:
        closed += [root / name for name in names if normalize_filename(name) in _PRIVATE]
    frozen = [path for path in _steering(root, names, call) if path not in closed]
    frozen += _instructions_around(call.base, root)
    walk = _CoverWalk(root, settings.blocked_paths)
    if not walk.is_complete:
        raise ToolError(render_prompt("sandbox/too_large", limit=f"{MAX_ENTRIES:,}"))
    covered = {*closed, *locked, *frozen}
    frozen += [path for path in walk.read_only_paths if path not in covered]
    if "untrusted" in call.taint:
        # Mounted paths cannot be removed, but `git worktree remove` removes these.
        frozen += walk.worktree_files
    if closed:
        closed += walk.stores
        frozen = [path for path in frozen if not any(map(path.is_relative_to, walk.stores))]
    closed, masked, frozen = (_real(root, paths) for paths in (closed, walk.masked_paths, frozen))
    hidden_paths = {*closed, *masked}

    def visible(paths: Sequence[Path]) -> tuple[Path, ...]:
        """Return the paths that are not inside a hidden folder."""
        return tuple(path for path in paths if hidden_paths.isdisjoint(path.parents))

    return MountRestrictions(
        visible(closed),
        visible(locked),
        visible(masked),
        visible(frozen),
        tuple(walk.stores),
        None if closed else _outer_store(settings, call),
    )


@frozen
class AddedFolderCover:
    """Parts of a folder outside the workspace that commands must not see or change.

    `git_stores` is as in `MountRestrictions`. `holds_own_files`: the `masked_paths` include files
    of Kore.
    """

    masked_paths: tuple[Path, ...]
    read_only_paths: tuple[Path, ...]
    git_stores: tuple[Path, ...]
    holds_own_files: bool


def cover_added_folder(
    settings: ToolSettings, folder: Path, call: CallContext
) -> AddedFolderCover | None:
    """Return the cover of a folder outside the workspace.

    Files that file tools do not open there are hidden from commands, except git's stores. The same
    paths are read-only as in a workspace. None if the folder has too many entries or hidden paths.
    Blocks. Raises `OSError` for a folder that cannot be listed.
    """
    walk = _CoverWalk(
        folder, (*settings.blocked_paths, *PRIVATE_PLACES), _MAX_ADDED_ENTRIES, folder.parts[1:]
    )
    own = _existing_below(folder, (*settings.off_limits, *settings.fixed_files))
    masked = _real(folder, [*own, *walk.masked_paths])
    if not walk.is_complete or len(masked) > _MAX_ADDED_MASKS:
        return None
    hidden = set(masked)
    read_only = [*_steering(folder, os.listdir(folder), call), *walk.read_only_paths]
    if "untrusted" in call.taint:
        read_only += walk.worktree_files
    return AddedFolderCover(
        tuple(path for path in masked if hidden.isdisjoint(path.parents)),
        tuple(path for path in _real(folder, read_only) if hidden.isdisjoint(path.parents)),
        tuple(walk.stores),
        bool(own),
    )


def _steering(root: Path, names: Iterable[str], call: CallContext) -> Iterator[Path]:
    """Yield the entries of a folder that influence later turns."""
    task_files = TASK_FILES if "untrusted" in call.taint else frozenset[str]()
    for name in names:
        folded = normalize_filename(name)
        if folded in PROMPT_FILES or folded in PROMPT_FOLDERS or folded in task_files:
            yield root / name


def _instructions_around(base: Path, root: Path) -> Iterator[Path]:
    """Yield the project instructions in the system prompt that are in folders below the root."""
    folders = (folder for folder in (base, *base.parents) if root in folder.parents)
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if is_project_instructions(entry.name)]
        except OSError:
            continue
        yield from (folder / name for name in names)


def _outer_store(settings: ToolSettings, call: CallContext) -> StoreMount | None:
    """Return the mount of the workspace's store if it lies elsewhere and holds no secrets."""
    store = find_outer_store(call.workspace) if call.owner else None
    if store is None:
        return None
    if _existing_below(store.common.parent, settings.off_limits):
        return None
    read_only = _existing(store.common, GIT_CONTROL_FILES | {"modules"})
    writable = [store.common / name for name in ("objects", "refs", "logs")]
    if store.own != store.common:
        # The state of the main checkout and of other worktrees.
        read_only += _existing(store.common, ("HEAD", "index"))
        read_only += _existing(store.own, WORKTREE_FILES | {"modules"})
        writable.append(store.own)
        for entry in worktree_entries(store.common):
            if _is_of_worktree_in(entry, call.workspace):
                # As in a main checkout: git removes these files with the worktree.
                read_only += _existing(entry, WORKTREE_FILES if "untrusted" in call.taint else ())
            elif entry != store.own:
                read_only.append(entry)
    if call.workspace.parent == store.common:
        # Other worktrees in a bare repository.
        read_only += _folders_of_others(store.common, call.workspace)
    return StoreMount(
        FolderIdentity.of(store.common),
        tuple(read_only),
        tuple(path for path in writable if path.is_dir() and not path.is_symlink()),
    )


def _folders_of_others(store: Path, workspace: Path) -> list[Path]:
    """Return the folders in a store that git does not need for work in a worktree inside it."""
    with os.scandir(store) as entries:
        return [
            Path(entry.path)
            for entry in entries
            if entry.is_dir(follow_symlinks=False)
            and entry.name != workspace.name
            and (entry.name not in _STORE_FOLDERS or os.path.lexists(Path(entry.path, GIT)))
        ]


def _is_of_worktree_in(entry: Path, workspace: Path) -> bool:
    """Return whether a folder has the state of a worktree inside the workspace."""
    try:
        return workspace in pointed_at(entry / "gitdir").parent.parents
    except (OSError, ValueError):
        return False


def find_git_stores(root: Path) -> tuple[Path, ...]:
    """Return `MountRestrictions.git_stores`.

    For a workspace with more than `MAX_ENTRIES` entries, return those nearest to its top. May
    block.
    """
    return tuple(_CoverWalk(root, ()).stores)


def _existing_below(root: Path, paths: Iterable[Path]) -> list[Path]:
    """Return the real paths of the existing entries below the folder."""
    real_paths = [Path(os.path.realpath(path)) for path in paths]
    return [path for path in real_paths if path.is_relative_to(root) and os.path.lexists(path)]


def _real(root: Path, paths: Sequence[Path]) -> list[Path]:
    """Return distinct link targets, without targets that a command cannot reach."""
    paths_found: dict[Path, None] = {}
    for path in paths:
        if path.is_symlink():
            path = Path(os.path.realpath(path))
            if not path.exists() or path == root or not path.is_relative_to(root):
                continue
        paths_found[path] = None
    return list(paths_found)


class _CoverWalk:
    """Paths to cover below a folder, each path before its content."""

    def __init__(
        self,
        root: Path,
        blocked: Sequence[str],
        limit: int | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """Walk at most `limit` entries (None: `MAX_ENTRIES`).

        `prefix` are names of the folders above that entries of `blocked` may include.
        """
        self.masked_paths: list[Path] = []
        self.read_only_paths: list[Path] = []
        self.worktree_files: list[Path] = []
        self.stores: list[Path] = []
        self._root = root
        self._blocked = [
            tuple(normalize_filename(part) for part in entry.split("/")) for entry in blocked
        ]
        self._lasts = {parts[-1] for parts in self._blocked}
        self._remaining = MAX_ENTRIES if limit is None else limit
        self._prefix = tuple(map(normalize_filename, prefix))
        pending: deque[tuple[str, tuple[str, ...]]] = deque([(str(root), ())])
        while pending and self._remaining > 0:
            folder, above = pending.popleft()
            pending += self._visit(folder, above)
        self.is_complete = not pending

    def _visit(self, folder: str, above: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Check one folder; yield its subfolders to check next."""
        try:
            entries = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:
            # A command could reopen it, or may be able to read it although Kore cannot.
            self.masked_paths.append(Path(folder))
            return
        self._remaining -= len(entries)
        if _STORE.issubset(entry.name for entry in entries):
            # The folder is searched anyway, because a command can make any folder look like this.
            self._freeze_git(Path(folder))
            if above:
                self.stores.append(Path(folder))
        for entry in entries:
            name = _key(entry.name)
            parts = (*above, name)
            if above and above[-1] in _PACKAGES:
                if name in self._lasts and self._is_blocked(parts):
                    self.masked_paths.append(Path(entry.path))
            elif name == GIT:
                self._git(Path(entry.path))
            elif name in self._lasts and self._is_blocked(parts):
                self.masked_paths.append(Path(entry.path))
            else:
                if name in CONFIGURATIONS:
                    self.read_only_paths.append(Path(entry.path))
                if entry.is_dir(follow_symlinks=False):
                    yield entry.path, parts

    def _git(self, path: Path) -> None:
        self.stores.append(path)
        if path.is_dir() and not path.is_symlink():
            self._freeze_git(path)
        elif path.parent != self._root and points_to_worktree(path):
            self.worktree_files.append(path)
        else:
            # It contains the location of the store.
            self.read_only_paths.append(path)

    def _freeze_git(self, store: Path) -> None:
        """Freeze git's hooks and configuration, also in the stores of submodules."""
        self.read_only_paths += _existing(store, GIT_CONTROL_FILES)
        try:
            modules = list(module_stores(store))
            worktrees = worktree_entries(store)
        except (OSError, TooManyFolders):
            modules = worktrees = []
            self.read_only_paths += _existing(store, ("modules", "worktrees"))
        if len(modules) > _MAX_MODULES:
            self.read_only_paths += _existing(store, ("modules",))
        else:
            self.stores += modules
            for module in modules:
                self.read_only_paths += _existing(module, GIT_CONTROL_FILES)
                worktrees += worktree_entries(module)
        self.worktree_files += [
            path for entry in worktrees for path in _existing(entry, WORKTREE_FILES)
        ]

    def _is_blocked(self, parts: tuple[str, ...]) -> bool:
        parts = (*self._prefix, *parts)
        return any(parts[-len(entry) :] == entry for entry in self._blocked)


def _existing(folder: Path, names: Iterable[str]) -> list[Path]:
    return [folder / name for name in sorted(names) if os.path.lexists(folder / name)]


def _key(name: str) -> str:
    """Return `normalize_filename`, with a fast path for ordinary names."""
    if name.isascii() and ":" not in name and name[-1] not in " .":
        return name.lower()
    return normalize_filename(name)
