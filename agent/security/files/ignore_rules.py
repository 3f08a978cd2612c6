"""Which files of a workspace its `.gitignore` files leave out.

A matcher of our own: the usual ones turn each pattern into a regular expression, and a hostile
pattern of a cloned repository (`*a*a*a*a*…`) would then hold up the whole process for hours.
https://git-scm.com/docs/gitignore#_pattern_format
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent.records import frozen
from agent.security.files.globs import matches

NAME = ".gitignore"
LIMIT_BYTES = 1_000_000
# A `.gitignore` as bytes, or None when there is none that may be read.
Read = Callable[[Path], bytes | None]

_ESCAPED = re.compile(r"\\(.)")
_NEGATED = re.compile(r"(?<!\\)\[\^")
# What means something else to `fnmatch` than to git.
_SPECIAL = frozenset("*?[")


@frozen
class _Rule:
    parts: tuple[str, ...]
    keeps: bool
    folders_only: bool


@frozen
class _Level:
    """The rules of one folder, which is `depth` components below the root, and of those above."""

    ignored: bool
    rules: tuple[tuple[int, tuple[_Rule, ...]], ...]


class Ignores:
    """Says of paths below `start` whether the files between `root` and them leave them out.

    Whoever asks for a folder that is left out itself wants to see what is in it: there, only the
    `.gitignore` files in it count.
    """

    def __init__(self, root: Path, start: Path, read: Read) -> None:
        self._read = read
        self._start = start
        above = start.relative_to(root).parts if start.is_relative_to(root) else ()
        self._above: tuple[str, ...] = above
        level = _Level(False, ())
        for depth in range(len(above)):
            level = self._entered(level, root.joinpath(*above[:depth]), depth)
            if _verdict(level, above[: depth + 1], is_folder=True):
                level = _Level(False, ())
        self._levels: dict[tuple[str, ...], _Level] = {}
        self._levels[()] = self._entered(level, start, len(above))

    def hides(self, parts: Sequence[str], *, is_folder: bool = False) -> bool:
        """Whether the path `start/parts…` is left out, itself or a folder that it is in."""
        level = self._level(tuple(parts[:-1]))
        return level.ignored or _verdict(level, (*self._above, *parts), is_folder)

    def _level(self, parts: tuple[str, ...]) -> _Level:
        known = len(parts)
        while parts[:known] not in self._levels:
            known -= 1
        found = self._levels[parts[:known]]
        for count in range(known + 1, len(parts) + 1):
            here = parts[:count]
            if found.ignored or _verdict(found, (*self._above, *here), is_folder=True):
                found = _Level(True, ())
            else:
                depth = len(self._above) + count
                found = self._entered(found, self._start.joinpath(*here), depth)
            self._levels[here] = found
        return found

    def _entered(self, above: _Level, folder: Path, depth: int) -> _Level:
        data = self._read(folder / NAME)
        rules = tuple(_rules(data.decode("utf-8", "replace"))) if data else ()
        return _Level(False, ((depth, rules), *above.rules)) if rules else above


def _verdict(level: _Level, path: tuple[str, ...], is_folder: bool) -> bool:
    """What the last rule that fits says, those of the innermost folder first."""
    for depth, rules in level.rules:
        inside = path[depth:]
        for rule in reversed(rules):
            if (is_folder or not rule.folders_only) and matches(inside, rule.parts):
                return not rule.keeps
    return False


def _rules(text: str) -> Iterator[_Rule]:
    for line in text.lstrip("\ufeff").split("\n"):
        if (rule := _rule(line.removesuffix("\r"))) is not None:
            yield rule


def _rule(line: str) -> _Rule | None:
    bare = line.rstrip(" ")
    # A blank at the end counts when it is escaped.
    line = bare + " " if bare.endswith("\\") and bare != line else bare
    if not line or line[0] == "#":
        return None
    keeps = line[0] == "!"
    pattern = line[1:] if keeps else line
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    anchored = "/" in pattern
    parts = [_part(part) for part in pattern.removeprefix("/").split("/")]
    if parts[-1] == "**":
        # What is in the folder, not the folder.
        parts.append("*")
    return _Rule(tuple(parts) if anchored else ("**", *parts), keeps, folders_only)


def _part(part: str) -> str:
    if part == "**":
        return part
    part = _NEGATED.sub("[!", part)
    return _ESCAPED.sub(lambda found: f"[{found[1]}]" if found[1] in _SPECIAL else found[1], part)
