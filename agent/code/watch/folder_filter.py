"""Filter for the watched folders and files of a project, based on `.gitignore`."""

import os
from collections.abc import Collection
from dataclasses import field
from pathlib import Path

from agent.records import frozen
from agent.security.files.ignore_rules import NAME, Ignores
from agent.security.files.safe_open import open_regular

# Entries read per folder.
_MAX_ENTRIES = 50_000
_IGNORE_LIMIT_BYTES = 100_000


@frozen
class FolderListing:
    """Watched folders (paths) and files of a folder."""

    folders: list[str] = field(default_factory=list)
    files: "list[os.DirEntry[str]]" = field(default_factory=list)


class FolderFilter:
    """Filter of the paths to watch below a root.

    Paths are relative to `root`, with slashes; the root itself is the empty string. `mounts` are
    folders not to enter: network file systems. Links are not followed.
    """

    def __init__(self, root: Path, mounts: Collection[str] = ()) -> None:
        self.root = str(root)
        self._mounts = frozenset(mounts)
        # Folders without an ignore file: the checks on disk are the main cost of a walk.
        self._without_rules: set[str] = set()
        self._ignores = Ignores(root, root, self._read)

    def absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def hides(self, path: str, *, is_folder: bool = False) -> bool:
        """Return whether a path, or one of its parents, is excluded."""
        parts = path.split("/")
        if ".git" in parts or (is_folder and self.absolute(path) in self._mounts):
            return True
        return self._ignores.hides(parts, is_folder=is_folder)

    def list(self, folder: str) -> FolderListing:
        """Return the watched entries of a folder; none if it cannot be read."""
        listing = FolderListing()
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(self.absolute(folder)) as members:
                for entry in members:
                    entries.append(entry)
                    if len(entries) >= _MAX_ENTRIES:
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
