"""Marks of untrusted content in a backup, stored with each packed file and folder."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent.security.taint.file_marks import (
    SINCE,
    FolderTimes,
    MarkLevel,
    mark_level,
    mark_tainted,
    note_earliest,
)

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

# Comment of an archive whose entries have their marks as comments.
_COMMENT = b"kore marks 1"
_LEVELS: Mapping[bytes, MarkLevel] = {b"seen": "seen", b"unseen": "unseen"}


class MarkWriter:
    """Writer of a folder's marks into an archive.

    Each mark is read after its entry's content, so that a mark set meanwhile counts.
    """

    def __init__(self, packed: "ZipFile", folder: Path) -> None:
        self._folder = folder
        self._times: FolderTimes = {}
        packed.comment = _COMMENT

    def level(self, path: str) -> MarkLevel:
        """Return the level of a path below the folder."""
        place = self._folder / path
        # A path that can no longer be examined may have contained anything.
        return mark_level(place, self._times) if os.path.lexists(place) else "unseen"

    def add(self, path: str, entry: "ZipInfo") -> None:
        if (level := self.level(path)) != "none":
            entry.comment = level.encode()


def read_marks(packed: "ZipFile", name: str) -> Mapping[str, MarkLevel] | None:
    """Return the marks by paths below the packed folder; None for an archive without marks."""
    if packed.comment != _COMMENT:
        return None
    marks: dict[str, MarkLevel] = {}
    for entry in packed.infolist():
        top, *parts = entry.filename.rstrip("/").split("/")
        if entry.comment and top == name and ".." not in parts:
            marks["/".join(parts)] = _LEVELS.get(entry.comment, "unseen")
    return marks


def put_marks(folder: Path, marks: Mapping[str, MarkLevel] | None) -> None:
    """Mark the files unpacked into the folder, or all of them if the marks are unknown."""
    if marks is None:
        note_earliest(folder, SINCE, 0.0)
        return
    for path, level in marks.items():
        mark_tainted(folder / path, folder, unseen=level == "unseen")
