"""Coverage of a deletion by undo: restorable files, and the reasons for the others."""

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from agent.records import frozen
from agent.security.files.paths import normalize_filename
from agent.security.policy.base import Deletion, LossCause
from agent.security.shell.deletions import DeletionTargets
from agent.text.visible import escape_line
from agent.undo.blob_store import BlobStore
from agent.undo.snapshot import FolderSnapshot, IsHidden, SnapshotLimits, SnapshotWalker

_GIT = ".git"
_MAX_NAMES = 10
_MAX_LOSSES = 1_000


@frozen
class _Judgement:
    """Targets in one folder: all named `paths`, and those that undo could not restore.

    `possible` are losses that the program decides about when it runs.
    """

    paths: Sequence[Path]
    lost: Mapping[LossCause, Mapping[Path, None]]
    possible: Sequence[Path]


class UndoCoverage:
    """Judge of deletions in the folder `root`, by the rules of the snapshot before a command.

    `blobs` is None if changes are not recorded. `closed` and hidden paths are those that undo
    ignores. `added` judge the folders outside in which a command can change files.
    """

    def __init__(
        self,
        root: Path,
        blobs: BlobStore | None,
        closed: Collection[Path] = (),
        limits: SnapshotLimits | None = None,
        *,
        is_hidden: IsHidden | None = None,
        added: "Sequence[UndoCoverage]" = (),
    ) -> None:
        self._root = root
        self._added = added
        self._walker = (
            None if blobs is None else SnapshotWalker(root, blobs, closed, limits, is_hidden)
        )
        self._tree = FolderSnapshot()

    def deletion(self, targets: DeletionTargets, *, confined: bool) -> Deletion:
        """Return the targets that undo could restore. Blocks.

        `confined` commands cannot change anything outside of the folder and the added ones, and its
        repositories are protected unless named.
        """
        judged = [part._judge(targets) for part in (self, *self._added)]
        lost: dict[LossCause, dict[Path, None]] = {}
        for part in judged:
            for cause, paths in part.lost.items():
                lost.setdefault(cause, {}).update(paths)
        paths_of_all = (*targets.paths, *targets.search_roots)
        outside = [path for path in paths_of_all if not self._is_judged(path)]
        reach = [part._root for part in self._added]
        unseen = [path for path in outside if confined and not _meets(path, reach)]
        if lost_outside := [path for path in outside if path not in unseen]:
            lost["outside"] = dict.fromkeys(lost_outside)
        all_lost = {path for paths in lost.values() for path in paths}
        inside = [path for part in judged for path in part.paths]
        return Deletion(
            restorable=self._names([path for path in inside if path not in all_lost]),
            lost=tuple((cause, self._names(paths)) for cause, paths in lost.items()),
            possible=self._names(dict.fromkeys(path for part in judged for path in part.possible)),
            unseen=self._names(unseen),
            is_chosen_later=bool(targets.search_roots),
        )

    def _is_judged(self, path: Path) -> bool:
        return any(path.is_relative_to(part._root) for part in (self, *self._added))

    def _judge(self, targets: DeletionTargets) -> "_Judgement":
        """Return what undo could restore of the targets in this folder."""
        paths: dict[Path, None] = {}
        for path in targets.paths:
            if os.path.lexists(path) and (part := self._in_folder(path)) is not None:
                paths[part] = None
        parts = [self._in_folder(path) for path in targets.search_roots if os.path.lexists(path)]
        searched_folders = dict.fromkeys(part for part in parts if part is not None)
        if self._walker is not None and (paths or searched_folders):
            try:
                self._tree = self._walker.survey()
            except OSError:
                self._walker = None
        lost: dict[LossCause, dict[Path, None]] = {}
        for path in paths:
            for cause, lost_path in islice(self._losses(path), _MAX_LOSSES):
                lost.setdefault(cause, {})[lost_path] = None
        possible: dict[Path, None] = {}
        for path in searched_folders:
            losses = islice(self._losses(path), _MAX_LOSSES)
            possible |= {lost_path: None for cause, lost_path in losses if cause != "git"}
        return _Judgement(tuple(paths), lost, tuple(possible))

    def _in_folder(self, path: Path) -> Path | None:
        """Return the part of the path that is in the folder."""
        if self._root.is_relative_to(path):
            return self._root
        return path if path.is_relative_to(self._root) else None

    def _losses(self, path: Path) -> Iterator[tuple[LossCause, Path]]:
        """Yield the uppermost files and folders that could not be restored."""
        if self._walker is None:
            yield "unrecorded", path
            return
        parts = path.relative_to(self._root).parts
        for count in range(1, len(parts) + 1):
            is_folder = count < len(parts) or _is_folder(path)
            if self._walker.leaves_out(parts[:count], is_folder=is_folder):
                yield self._cause_left_out(parts[:count]), path
                return
        yield from self._losses_below(path, parts)

    def _losses_below(self, path: Path, parts: tuple[str, ...]) -> Iterator[tuple[LossCause, Path]]:
        assert self._walker is not None, "without a record nothing is walked"
        name = "/".join(parts)
        if not parts or _is_folder(path):
            if name in self._tree.unreadable_folders:
                yield "unreadable", path
                return
            if parts and name not in self._tree.entries:
                yield "limit", path
                return
            try:
                with os.scandir(path) as scan:
                    entries = sorted(scan, key=lambda entry: entry.name)
            except OSError:
                # The folder has changed since the survey.
                yield "unreadable", path
                return
            for listed in entries:
                inner, is_folder = (*parts, listed.name), listed.is_dir(follow_symlinks=False)
                if self._walker.leaves_out(inner, is_folder=is_folder):
                    yield self._cause_left_out(inner), path / listed.name
                else:
                    yield from self._losses_below(path / listed.name, inner)
            return
        entry = self._tree.entries.get(name)
        if entry is None or not entry.state.is_known:
            yield self._cause_of_file(path, is_seen=entry is not None), path

    def _cause_left_out(self, parts: tuple[str, ...]) -> LossCause:
        if any(normalize_filename(part) == _GIT for part in parts):
            return "git"
        assert self._walker is not None, "without a record nothing is walked"
        return "closed" if self._walker.is_closed(parts) else "ignored"

    def _cause_of_file(self, path: Path, *, is_seen: bool) -> LossCause:
        assert self._walker is not None, "without a record nothing is walked"
        try:
            info = os.lstat(path)
        except OSError:
            return "unreadable"
        if not stat.S_ISREG(info.st_mode):
            return "unreadable"
        if info.st_size > self._walker.limits.file_bytes:
            return "large"
        if not is_seen or self._tree.is_full:
            return "limit"
        return "unreadable"

    def _names(self, paths: Collection[Path]) -> tuple[str, ...]:
        names = []
        for path in islice(paths, _MAX_NAMES):
            inside = path.relative_to(self._root) if path.is_relative_to(self._root) else path
            suffix = "/" if _is_folder(path) and str(path) != "/" else ""
            names.append(escape_line(f"{inside}{suffix}"))
        return (*names, "…") if len(paths) > _MAX_NAMES else tuple(names)


def _meets(path: Path, folders: Collection[Path]) -> bool:
    """Return whether the path is in one of the folders, or contains one of them."""
    return any(path.is_relative_to(folder) or folder.is_relative_to(path) for folder in folders)


def _is_folder(path: Path) -> bool:
    # The methods of `Path` raise for a closed folder or a name that is too long.
    return os.path.isdir(path) and not os.path.islink(path)
