"""A folder as a small tree, for the model: what is there, without what git ignores."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.context.budget import estimate_text

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

TREE_TOKENS = 500
# A folder with more than this is looked at no further.
_LOOKED_AT = 5_000
_IGNORE_LIMIT_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Shape:
    """How deep, and how many entries of a folder."""

    depth: int = 5
    per_folder: int = 50


def tree(root: Path, shape: Shape, limit: int = TREE_TOKENS) -> str:
    """The tree in at most about `limit` tokens: as deep as fits, then as many entries as fit."""
    for depth in range(shape.depth, 0, -1):
        found = "\n".join(_Walk(root, shape, depth).lines())
        if estimate_text(found) <= limit:
            return found
    lines = found.splitlines()
    while len(lines) > 1 and estimate_text("\n".join(lines)) > limit:
        del lines[len(lines) * 9 // 10 :]
    return "\n".join([*lines, "…"])


class _Walk:
    """One way through a folder."""

    def __init__(self, root: Path, shape: Shape, depth: int) -> None:
        self._root = root
        self._per_folder = shape.per_folder
        self._depth = depth
        self._left = _LOOKED_AT

    def lines(self) -> Iterator[str]:
        yield from self._folder(self._root, 0, ())

    def _folder(
        self, folder: Path, level: int, rules: Sequence[tuple[Path, "GitIgnoreSpec"]]
    ) -> Iterator[str]:
        own = _ignored_in(folder)
        rules = (*rules, (folder, own)) if own is not None else rules
        entries = self._entries(folder, rules)
        indent = "  " * level
        for entry, is_folder in entries[: self._per_folder]:
            name = "".join(c if c.isprintable() else "?" for c in entry.name)
            if is_folder:
                yield f"{indent}{name}/"
                if level + 1 < self._depth:
                    yield from self._folder(Path(entry.path), level + 1, rules)
            else:
                yield f"{indent}{name}{_size(entry)}"
        if len(entries) > self._per_folder:
            yield f"{indent}... ({len(entries) - self._per_folder} more files)"

    def _entries(
        self, folder: Path, rules: Sequence[tuple[Path, "GitIgnoreSpec"]]
    ) -> list[tuple["os.DirEntry[str]", bool]]:
        found = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0:
                        break
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if entry.name != ".git" and not _is_ignored(entry, is_folder, rules):
                        found.append((entry, is_folder))
        except OSError:
            return []
        return sorted(found, key=lambda one: (not one[1], one[0].name))


def _is_ignored(
    entry: "os.DirEntry[str]", is_folder: bool, rules: Sequence[tuple[Path, "GitIgnoreSpec"]]
) -> bool:
    # The nearest file that says anything of it decides.
    for folder, spec in reversed(rules):
        path = os.path.relpath(entry.path, folder) + ("/" if is_folder else "")
        verdict = spec.check_file(path).include
        if verdict is not None:
            return verdict
    return False


def _ignored_in(folder: Path) -> "GitIgnoreSpec | None":
    path = folder / ".gitignore"
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_IGNORE_LIMIT_BYTES)
    except OSError:
        return None
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(text.splitlines())
    except ValueError:
        return None


def _size(entry: "os.DirEntry[str]") -> str:
    try:
        size = entry.stat(follow_symlinks=False).st_size
    except OSError:
        return ""
    if size < 1000:
        return f" ({size} B)"
    return f" ({size / 1000:.0f} kB)" if size < 1_000_000 else f" ({size / 1e6:.1f} MB)"
