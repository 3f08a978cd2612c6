"""File writes of tools in a workspace, with the taint mark set before the content."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.security.files import file_io
from agent.security.files.quarantine import quarantine_created
from agent.security.files.safe_open import open_folder_beneath
from agent.security.taint.file_marks import (
    MarkLevel,
    mark_entry,
    mark_folders_around,
    mark_level,
    mark_open_file,
    mark_tainted,
    note_unmarked,
)
from agent.types import Taint


def write_marked(
    path: Path,
    data: bytes,
    workspace: Path,
    taint: frozenset[Taint],
    *,
    mode: int | None = None,
    level: MarkLevel = "none",
) -> None:
    """Write the file like `file_io.write_atomic` and set its mark.

    The file keeps an existing mark. Untrusted text adds a mark, and so does the `level` of the
    data's source. Raises `ToolError`.
    """
    with _Marking(path, workspace, taint, level) as marking:
        file_io.write_atomic(path, data, mode, marking.mark_open)


def append_marked(path: Path, data: bytes, workspace: Path, taint: frozenset[Taint]) -> None:
    """Append to the file like `file_io.append`, with the same marks as `write_marked`.

    Raises `ToolError`.
    """
    with _Marking(path, workspace, taint) as marking:
        file_io.append(path, data, marking.mark_open)


@contextmanager
def keep_mark(path: Path, workspace: Path) -> Iterator[None]:
    """Preserve the mark of a file around a write by another program, which ignores marks."""
    level = mark_level(path)
    try:
        yield
    finally:
        if level != "none":
            mark_tainted(path, workspace, unseen=level == "unseen")


class _Marking:
    """Mark of one write.

    The folders come first: missing folders are created and marked, because their names are part of
    the written data.
    """

    def __init__(
        self, path: Path, workspace: Path, taint: frozenset[Taint], level: MarkLevel = "none"
    ) -> None:
        self._path, self._workspace = path, workspace
        levels = {mark_level(path), level, "seen" if "untrusted" in taint else "none"}
        self._is_unseen = "unseen" in levels
        self._is_needed = levels != {"none"}
        self._is_missing = False

    def __enter__(self) -> "_Marking":
        if self._is_needed:
            new_folders = [folder for folder in self._path.parents if not os.path.lexists(folder)]
            quarantine_created(self._path)
            with (
                file_io.explain_errors(self._path),
                open_folder_beneath(self._path.parent, create=True),
            ):
                mark_folders_around(self._path, self._workspace)
                for folder in new_folders:
                    mark_entry(folder, unseen=True)
        return self

    def mark_open(self, descriptor: int) -> None:
        if self._is_needed:
            try:
                mark_open_file(descriptor, unseen=self._is_unseen)
            except OSError:
                self._is_missing = True

    def __exit__(self, *_: object) -> None:
        if self._is_missing:
            note_unmarked(self._path, self._workspace)
