"""Protection of repositories against deletion while a command runs.

A sandbox cannot distinguish `rm` from `git gc`, which deletes objects too. The files of the history
are therefore preserved until the command has ended: small files as bytes, large files as open
descriptors, which outlive their names. Files that are then missing and were not removed by git are
restored.
"""

import errno
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock

from agent.security.files.git_layout import (
    GITDIR,
    TooManyFolders,
    find_outer_store,
    module_stores,
    pointed_at,
)
from agent.security.files.instruction_files import GIT
from agent.tools.repositories.store_copy import HistoryCopy
from agent.tools.repositories.store_files import (
    HistoryCache,
    HistoryLimits,
    HoldingBudget,
    LimitExceeded,
)

log = logging.getLogger(__name__)

# Errors that mean that a path has no repository.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class GitHistoryGuard:
    """Guard for one command: call `begin` before it and `end` after it, both in a thread.

    `end` waits for a `begin` whose caller was cancelled. Afterwards `unprotected` names the
    repositories that could not be preserved or restored.
    """

    def __init__(
        self,
        workspace: Path,
        cache: HistoryCache | None = None,
        limits: HistoryLimits | None = None,
    ) -> None:
        self.unprotected: list[str] = []
        self._root = workspace
        self._cache = cache or HistoryCache()
        self._limits = limits or HistoryLimits()
        self._copies: list[HistoryCopy] = []
        self._lock = Lock()
        self._has_ended = False

    def begin(self, stores: Iterable[Path], deleted: Collection[Path] = ()) -> None:
        """Preserve these stores and their submodules, except in folders to be `deleted`."""
        with self._lock:
            if self._has_ended:
                return
            budget = HoldingBudget(self._limits)
            for store in stores:
                try:
                    for part in (store, *module_stores(store)):
                        if not any(map(part.is_relative_to, deleted)):
                            self._hold(part, budget)
                except (OSError, LimitExceeded, TooManyFolders) as exc:
                    log.warning("the history of %s is not protected: %s", store, exc)
                    self.unprotected.append(self._name(store))

    def _hold(self, store: Path, budget: HoldingBudget) -> None:
        with ExitStack() as stack, budget.store():
            try:
                copy = HistoryCopy(store, self._cache, budget, stack)
            except OSError as exc:
                if exc.errno in _ABSENT:
                    return
                raise
            try:
                copy.read()
            finally:
                # Also for a store beyond the limits, so that it is not read each time.
                self._cache.keep(store, copy.folders)
            self._copies.append(copy)
            copy.stack = stack.pop_all()

    def end(self, *, is_restored: bool = True) -> Sequence[str]:
        """Restore files that git did not remove, if requested.

        Return the restored paths, relative to the workspace.
        """
        with self._lock:
            self._has_ended = True
            places = []
            for copy in self._copies:
                with copy.stack:
                    try:
                        place = copy.restore() if is_restored else None
                    except OSError as exc:
                        log.error("the repository %s could not be put back: %s", copy.store, exc)
                        self.unprotected.append(self._name(copy.store))
                        continue
                    if place is not None:
                        places.append(self._name(place))
            self._copies.clear()
            return places

    def _name(self, store: Path) -> str:
        is_inside = store.is_relative_to(self._root)
        return str(store.relative_to(self._root) if is_inside else store)


def own_stores(workspace: Path, find: Callable[[], Collection[Path]]) -> Sequence[Path]:
    """Return the stores of the repository of a folder.

    For a folder without a repository, return the stores from `find`, except those inside another
    repository: stores below a repository, such as in a build folder, appear and disappear. May
    block.
    """
    store = workspace / GIT
    if store.is_dir() and not store.is_symlink():
        return (store,)
    if store.is_file() and not store.is_symlink():
        try:
            linked = pointed_at(store, GITDIR)
        except (OSError, ValueError):
            return ()
        if linked.is_relative_to(workspace):
            return (linked,)
        outer = find_outer_store(workspace)
        return () if outer is None else (outer.common,)
    stores = find()
    folders = [place.parent for place in stores if place.name == GIT]
    return [
        place
        for place in stores
        if not any(place.parent != folder and place.is_relative_to(folder) for folder in folders)
    ]
