"""Small directory tree for the model, without files that git ignores."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TypeAlias

from agent.providers.token_estimate import estimate_text
from agent.records import frozen
from agent.security.files.ignore_rules import Ignores
from agent.security.files.safe_open import open_regular

MAX_TREE_TOKENS = 500
# A directory entry and whether it is a folder.
_Entry: TypeAlias = "tuple[os.DirEntry[str], bool]"
# Limit on the entries that are read for one tree.
_MAX_ENTRIES = 5_000
_IGNORE_LIMIT_BYTES = 100_000
# Name of the line for entries of a folder that are not shown.
_MORE = "..."
# Suffix of a name: a size, or the number of hidden entries.
_SIZE = re.compile(r" \([\d.]+ (?:B|kB|MB|more files)\)$")


@frozen
class TreeLimits:
    """Maximum depth of a tree and maximum number of entries per folder."""

    depth: int = 5
    per_folder: int = 50


@frozen
class FolderTree:
    """Rendered tree; `levels` is the number of complete levels, 0 if the first level is cut."""

    text: str
    levels: int


def tree(root: Path, shape: TreeLimits, limit: int = MAX_TREE_TOKENS) -> FolderTree:
    """Return the tree in about `limit` tokens, as deep as fits.

    If even the first level does not fit, it is cut.
    """
    walk = _TreeWalk(root, shape)
    text = ""
    for depth in range(shape.depth):
        walk.deepen()
        deeper = "\n".join(walk.lines())
        if estimate_text(deeper) > limit:
            return FolderTree(text, depth) if depth else FolderTree(_cut_lines(deeper, limit), 0)
        text = deeper
    return FolderTree(text, shape.depth)


def tree_changes(before: FolderTree, after: FolderTree) -> list[str] | None:
    """Return the differences between two trees, or None if they show different parts of the folder.

    Examples: `+ src/new.py (2 kB)`, `- old.py`, `~ grown.py (3 kB)`. New and deleted entries of a
    folder that is only partly shown are unknown.
    """
    if before.levels != after.levels or not after.levels:
        return None
    old, new = tree_entries(before.text), tree_entries(after.text)
    partial = {path.removesuffix(_MORE) for path in (*old, *new) if path.endswith(_MORE)}
    changed = [path for path in new if old.get(path, new[path]) != new[path]]
    return [
        *(f"- {path}" for path in _missing(old, new, partial, with_contents=False)),
        *(f"+ {path}{new[path]}" for path in _missing(new, old, partial, with_contents=True)),
        *(f"~ {path}{new[path]}" for path in changed),
    ]


def _missing(
    here: Mapping[str, str], there: Mapping[str, str], partial: Set[str], *, with_contents: bool
) -> Iterator[str]:
    """Yield the paths of one tree that the other certainly does not contain."""
    hidden: set[str] = set()
    for path in here:
        if path in there:
            continue
        parent = path[: path.rstrip("/").rfind("/") + 1]
        is_sure = parent not in hidden and (parent not in partial or path.endswith(_MORE))
        if is_sure:
            yield path
        if path.endswith("/") and not (is_sure and with_contents):
            hidden.add(path)
        # Contents of a hidden folder are hidden, too.
        if parent in hidden and path.endswith("/"):
            hidden.add(path)


def tree_entries(text: str) -> dict[str, str]:
    """Return each path of a tree with the suffix of its name; folders end with a slash."""
    entries: dict[str, str] = {}
    folders: list[str] = []
    for line in text.splitlines():
        label = line.lstrip(" ")
        depth = (len(line) - len(label)) // 2
        del folders[depth:]
        if label.endswith("/"):
            folders.append(label)
            entries["".join(folders)] = ""
            continue
        match = _SIZE.search(label)
        name = label[: match.start()] if match else label
        entries["".join((*folders, name))] = match[0] if match else ""
    return entries


def _cut_lines(text: str, limit: int) -> str:
    lines = text.splitlines()
    while len(lines) > 1 and estimate_text("\n".join(lines)) > limit:
        del lines[len(lines) * 9 // 10 :]
    return "\n".join([*lines, "…"])


class _TreeWalk:
    """Traversal of a folder by level; levels that cannot be shown are not read."""

    def __init__(self, root: Path, shape: TreeLimits) -> None:
        self._root = root
        self._per_folder = shape.per_folder
        self._remaining = _MAX_ENTRIES
        self._entries_by_folder: dict[str, Sequence[_Entry]] = {}
        self._ignores = Ignores(root, root, _ignores)
        self._next: list[tuple[Path, tuple[str, ...]]] = [(root, ())]

    def deepen(self) -> None:
        """Read the next level."""
        level, self._next = self._next, []
        for folder, parts in level:
            entries = self._entries_by_folder[str(folder)] = self._entries(folder, parts)
            for entry, is_folder in entries[: self._per_folder]:
                if is_folder:
                    self._next.append((Path(entry.path), (*parts, entry.name)))

    def lines(self) -> Iterator[str]:
        """Yield the lines of the levels read so far."""
        yield from self._lines(str(self._root), "")

    def _lines(self, folder: str, indent: str) -> Iterator[str]:
        entries = self._entries_by_folder.get(folder, ())
        for entry, is_folder in entries[: self._per_folder]:
            name = "".join(c if c.isprintable() else "?" for c in entry.name)
            if is_folder:
                yield f"{indent}{name}/"
                yield from self._lines(entry.path, f"{indent}  ")
            else:
                yield f"{indent}{name}{_size(entry)}"
        if len(entries) > self._per_folder:
            yield f"{indent}{_MORE} ({len(entries) - self._per_folder} more files)"

    def _entries(self, folder: Path, parts: tuple[str, ...]) -> list[_Entry]:
        members = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._remaining -= 1
                    if self._remaining < 0:
                        break
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if entry.name == ".git":
                        continue
                    if not self._ignores.hides((*parts, entry.name), is_folder=is_folder):
                        members.append((entry, is_folder))
        except OSError:
            return []
        return sorted(members, key=lambda item: (not item[1], item[0].name))


def _ignores(path: Path) -> bytes | None:
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with open_regular(path) as file:
            return file.read(_IGNORE_LIMIT_BYTES)
    except OSError:
        return None


def describe_size(size_bytes: int) -> str:
    if size_bytes < 1_000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1000:.0f} kB" if size_bytes < 1_000_000 else f"{size_bytes / 1e6:.1f} MB"


def _size(entry: "os.DirEntry[str]") -> str:
    try:
        size = entry.stat(follow_symlinks=False).st_size
    except OSError:
        return ""
    return f" ({describe_size(size)})"
