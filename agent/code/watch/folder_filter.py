"""Which folders and files of a project are watched: what `.gitignore` leaves out is not."""

import os
from collections.abc import Collection
from dataclasses import field
from pathlib import Path

from agent.records import frozen
from agent.security.files.ignore_rules import NAME, Ignores
from agent.security.files.regular_file import open_regular

# A folder with more entries is looked at no further.
_ENTRIES = 50_000
_IGNORE_LIMIT_BYTES = 100_000


@frozen
class FolderListing:
    """What is watched in a folder, by name; entries hold a file's `os.DirEntry`."""

    folders: list[str] = field(default_factory=list)
    files: "list[os.DirEntry[str]]" = field(default_factory=list)


class FolderFilter:
    """Paths are relative to `root`, with slashes; the root's own is empty.

    `mounts` are folders that are not entered: other computers' disks. Links are not followed.
    """

    def __init__(self, root: Path, mounts: Collection[str] = ()) -> None:
        self.root = str(root)
        self._mounts = frozenset(mounts)
        # Folders known to have no ignore file: asking the disk for each costs most of a walk.
        self._without_rules: set[str] = set()
        self._ignores = Ignores(root, root, self._read)

    def absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def hides(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether it is left out, itself or a folder that it is in."""
        parts = path.split("/")
        if ".git" in parts or (is_folder and self.absolute(path) in self._mounts):
            return True
        return self._ignores.hides(parts, is_folder=is_folder)

    def list(self, folder: str) -> FolderListing:
        """What is watched in a folder; nothing where it cannot be read."""
        listing = FolderListing()
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(self.absolute(folder)) as members:
                for entry in members:
                    entries.append(entry)
                    if len(entries) >= _ENTRIES:
                        break
        except OSError:
            return listing
        if not any(entry.name == NAME for entry in entries):
            self._without_rules.add(self.absolute(folder))
        for entry in entries:
            is_folder = _is_folder(entry)
            path = f"{folder}/{entry.name}" if folder else entry.name
            if self.hides(path, is_folder=is_folder):
                continue
            if is_folder:
                listing.folders.append(path)
            else:
                listing.files.append(entry)
        return listing

    def _read(self, path: Path) -> bytes | None:
        if str(path.parent) in self._without_rules:
            return None
        try:
            if path.is_symlink() or not path.is_file():
                return None
            with open_regular(path) as file:
                return file.read(_IGNORE_LIMIT_BYTES)
        except OSError:
            return None


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
