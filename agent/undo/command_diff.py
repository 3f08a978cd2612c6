"""Changes that a command makes in its folder, found by snapshots before and after it."""

import json
import os
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path

from agent.errors import ToolError
from agent.undo.change_log import ChangeLog, TrackingWindow
from agent.undo.records import ChangeOrigin, FileChange, FileState, is_same_state
from agent.undo.report import list_paths
from agent.undo.snapshot import (
    FolderSnapshot,
    IsHidden,
    SnapshotEntry,
    SnapshotLimits,
    SnapshotWalker,
)

# Limit on the changed paths reported for a command.
_MAX_CHANGED_PATHS = 100


class CommandChangeDetector:
    """Call `begin` before the command and `end` after it, both in a thread.

    `notes` tell the person what cannot be undone; `changed_paths` are the known changed files.
    """

    def __init__(
        self,
        origin: ChangeOrigin,
        changes: ChangeLog,
        closed: Collection[Path] = (),
        limits: SnapshotLimits | None = None,
        is_hidden: IsHidden | None = None,
    ) -> None:
        self.notes: list[str] = []
        self.changed_paths: list[str] = []
        self._origin = origin
        self._changes = changes
        self._walk = SnapshotWalker(self._origin.root, changes.blobs, closed, limits, is_hidden)
        self._window: TrackingWindow | None = None
        self.before: FolderSnapshot | None = None

    def begin(self) -> None:
        self._window = self._changes.open(self._origin)
        try:
            self.before = self._walk.tree(self._load_snapshot())
        except OSError as exc:
            self.notes.append(
                f"files could not be saved ({exc.strerror}): its changes cannot be undone"
            )

    def end(self) -> None:
        """Record the changes, regardless of how the command ended."""
        window, before = self._window, self.before
        if window is None:
            return
        try:
            if before is not None:
                self._record(before, self._walk.tree(before.entries), window)
        except (OSError, ToolError) as exc:
            self.notes.append(f"the changes of this command cannot be undone: {exc}")
        finally:
            self._changes.close(window)

    def _record(
        self, before: FolderSnapshot, after: FolderSnapshot, window: TrackingWindow
    ) -> None:
        difference = _Difference(self._origin.root, before, after, window.paths_of_others)
        if difference.changes:
            self.notes += self._changes.add(
                self._origin, difference.changes, shared=window.overlaps
            )
        paths = [change.path for change in difference.changes if not change.is_of_folder]
        self.changed_paths += map(
            str, [*paths, *difference.unrecoverable_paths][:_MAX_CHANGED_PATHS]
        )
        if difference.unrecoverable_paths:
            names = list_paths(difference.unrecoverable_paths, self._origin.root)
            self.notes.append(f"cannot be undone, too large or not readable: {names}")
        if difference.paths_of_others:
            names = list_paths(difference.paths_of_others, self._origin.root)
            self.notes.append(f"changed by others at the same time: {names}")
        if before.is_cut or after.is_cut:
            self.notes.append(
                f"the folder has more than {self._walk.limits.entries:,} entries: files that this "
                "made, and what it changed in the rest, cannot be undone"
            )
        if before.files_read or after.files_read or difference.changes:
            self._remember(after)

    @property
    def _memo(self) -> str:
        return sha256(str(self._origin.root).encode("utf-8", "surrogateescape")).hexdigest()[:40]

    def _load_snapshot(self) -> dict[str, SnapshotEntry]:
        """Return the entries of the last snapshot of this folder."""
        data = self._changes.blobs.read_cache(self._memo)
        if data is None:
            return {}
        return {
            path: SnapshotEntry(FileState("file", value, mode, is_marked), tuple(stamp), read_at)
            for path, value, mode, is_marked, stamp, read_at in json.loads(data)
        }

    def _remember(self, tree: FolderSnapshot) -> None:
        rows = [
            (
                path,
                entry.state.value,
                entry.state.mode,
                entry.state.is_marked,
                *_stamp_and_read_time(entry),
            )
            for path, entry in tree.entries.items()
            if entry.state.kind == "file" and entry.state.is_known
        ]
        self._changes.blobs.write_cache(self._memo, json.dumps(rows).encode())


def _stamp_and_read_time(entry: SnapshotEntry) -> tuple[tuple[int, ...], int]:
    return entry.stamp, entry.read_at_ns


class _Difference:
    """Changes between two snapshots, in the order of a redo.

    `unrecoverable_paths` cannot be undone; `paths_of_others` were changed by others meanwhile.
    """

    def __init__(
        self,
        root: Path,
        before: FolderSnapshot,
        after: FolderSnapshot,
        foreign_paths: Collection[Path],
    ) -> None:
        self._root = root
        self._before = before
        self._after = after
        self.changes: list[FileChange] = []
        self.unrecoverable_paths: list[Path] = []
        self.paths_of_others: list[Path] = []
        removals, additions = list(self._find_removed()), list(self._find_created())
        files, folders = _split_by_kind(removals)
        new_files, new_folders = _split_by_kind(additions)
        # A folder is removed after its content and created before it.
        for change in [*files, *folders[::-1], *new_folders, *new_files, *self._find_changed()]:
            if change.path in foreign_paths:
                self.paths_of_others.append(change.path)
            elif not _is_known(change):
                self.unrecoverable_paths.append(change.path)
            else:
                self.changes.append(change)

    def _find_removed(self) -> Iterator[FileChange]:
        for path, entry in self._before.entries.items():
            now = self._after.entries.get(path)
            if now is not None and now.state.kind == entry.state.kind:
                continue
            full = self._root / path
            # A path that the second snapshot did not reach still exists.
            if now is not None or not (os.path.lexists(full) or _is_behind(path, self._after)):
                yield FileChange(full, entry.state, None)

    def _find_created(self) -> Iterator[FileChange]:
        if self._before.is_cut:
            return
        for path, entry in self._after.entries.items():
            was = self._before.entries.get(path)
            if was is not None and was.state.kind == entry.state.kind:
                continue
            if not _is_behind(path, self._before):
                yield FileChange(self._root / path, None, entry.state)

    def _find_changed(self) -> Iterator[FileChange]:
        for path, entry in self._after.entries.items():
            was = self._before.entries.get(path)
            if was is None or was is entry or was.state.kind != entry.state.kind:
                continue
            full = self._root / path
            if not was.state.is_known or not entry.state.is_known:
                if was.stamp[:1] + was.stamp[2:] != entry.stamp[:1] + entry.stamp[2:]:
                    yield FileChange(full, was.state, entry.state)
            elif not is_same_state(was.state, entry.state, modes=True):
                yield FileChange(full, was.state, entry.state)


def _is_behind(path: str, tree: FolderSnapshot) -> bool:
    """Return whether the path is inside an unreadable folder."""
    return any(path.startswith(f"{folder}/") for folder in tree.unreadable_folders)


def _split_by_kind(changes: list[FileChange]) -> tuple[list[FileChange], list[FileChange]]:
    files: list[FileChange] = []
    folders: list[FileChange] = []
    for change in changes:
        (folders if change.is_of_folder else files).append(change)
    return files, folders


def _is_known(change: FileChange) -> bool:
    """Return whether the content before and after is known."""
    return all(state is None or state.is_known for state in (change.before, change.after))
