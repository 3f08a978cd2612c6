"""Which files of a folder its `.gitignore` files leave out.

pathspec translates a pattern, RE2 matches it: in linear time, because a cloned repository may hold
patterns (`*a*a*a*a*…`) that would keep a backtracking engine busy for hours.
https://git-scm.com/docs/gitignore#_pattern_format
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.records import frozen

if TYPE_CHECKING:
    from re2 import Set

NAME = ".gitignore"
LIMIT_BYTES = 1_000_000
# Of the patterns of one file, and of one pattern; what is beyond is not read.
PATTERNS_CHARS = 50_000
PATTERN_CHARS = 500
# A `.gitignore` as bytes, or None when there is none that may be read.
Read = Callable[[Path], bytes | None]

# Of the patterns that are matched in one pass: with more, RE2's memory limit makes it slow.
_GROUP_CHARS = 1_500
# How pathspec ends a pattern that fits a file or a folder, and one that fits a folder only.
_ANY_END = "(?:(?P<ps_d>/)|$)"
_FOLDER_END = "(?P<ps_d>/)"


@frozen
class _PatternGroup:
    """Consecutive patterns of one file, and of each whether it leaves out or keeps."""

    patterns: "Set"
    hides: tuple[bool, ...]


_Rules = tuple[_PatternGroup, ...]


@frozen
class _Level:
    """The rules of one folder, which is `depth` components below the root, and of those above."""

    ignored: bool
    rules: tuple[tuple[int, _Rules], ...]


class Ignores:
    """Says of paths below `start` whether the files between `root` and them leave them out.

    A caller that asks for an ignored folder wants to see what is in it: there, only the
    `.gitignore` files in it count.
    """

    def __init__(self, root: Path, start: Path, read: Read) -> None:
        self._read = read
        self._start = start
        above = start.relative_to(root).parts if start.is_relative_to(root) else ()
        self._above: tuple[str, ...] = above
        level = _Level(False, ())
        for depth in range(len(above)):
            level = self._enter(level, root.joinpath(*above[:depth]), depth)
            if _verdict(level, above[: depth + 1], is_folder=True):
                level = _Level(False, ())
        self._levels: dict[tuple[str, ...], _Level] = {}
        self._levels[()] = self._enter(level, start, len(above))

    def hides(self, parts: Sequence[str], *, is_folder: bool = False) -> bool:
        """Whether the path `start/parts…` is left out, itself or a folder that it is in."""
        level = self._level(tuple(parts[:-1]))
        return level.ignored or _verdict(level, (*self._above, *parts), is_folder)

    def _level(self, parts: tuple[str, ...]) -> _Level:
        known_depth = len(parts)
        while parts[:known_depth] not in self._levels:
            known_depth -= 1
        level = self._levels[parts[:known_depth]]
        for count in range(known_depth + 1, len(parts) + 1):
            here = parts[:count]
            if level.ignored or _verdict(level, (*self._above, *here), is_folder=True):
                level = _Level(True, ())
            else:
                depth = len(self._above) + count
                level = self._enter(level, self._start.joinpath(*here), depth)
            self._levels[here] = level
        return level

    def _enter(self, above: _Level, folder: Path, depth: int) -> _Level:
        data = self._read(folder / NAME)
        rules = _rules(data.decode("utf-8", "replace")) if data else ()
        return _Level(False, ((depth, rules), *above.rules)) if rules else above


def _verdict(level: _Level, path: tuple[str, ...], is_folder: bool) -> bool:
    """What the last pattern that fits says, those of the innermost folder first."""
    for depth, rules in level.rules:
        # Names are bytes; what is no text in them fits what stands for any character.
        name = "/".join(path[depth:]).encode("utf-8", "surrogateescape")
        inside = name.decode("utf-8", "replace") + ("/" if is_folder else "")
        for group in reversed(rules):
            matched: list[int] | None = group.patterns.Match(inside)
            if matched:
                return group.hides[max(matched)]
    return False


def _rules(text: str) -> _Rules:
    groups: list[_PatternGroup] = []
    patterns: list[tuple[str, bool]] = []
    chars = 0
    for regex, hides in _patterns(text):
        chars += len(regex)
        if chars > _GROUP_CHARS and patterns:
            groups += _compile(patterns)
            patterns, chars = [], len(regex)
        patterns.append((regex, hides))
    return (*groups, *_compile(patterns))


def _compile(patterns: Sequence[tuple[str, bool]]) -> Iterator[_PatternGroup]:
    """In one group where RE2's memory limit allows it; what it cannot read fits nothing."""
    # Imported for the first file with patterns: most folders have none.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.dot_nl = True
    try:
        group = re2.Set.SearchSet(options)
        for regex, _ in patterns:
            group.Add(regex)
        group.Compile()
    except re2.error:
        if len(patterns) > 1:
            half = len(patterns) // 2
            yield from _compile(patterns[:half])
            yield from _compile(patterns[half:])
    else:
        yield _PatternGroup(group, tuple(hides for _, hides in patterns))


def _patterns(text: str) -> Iterator[tuple[str, bool]]:
    """The patterns of a file as regular expressions, and whether each leaves out or keeps."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    remaining_chars = PATTERNS_CHARS
    for line in text.removeprefix("\ufeff").split("\n"):
        pattern = line.removesuffix("\r")
        if pattern in ("!", "!/", "//") or not 0 < len(pattern) <= PATTERN_CHARS:
            continue
        try:
            regex, hides = GitIgnoreSpecPattern.pattern_to_regex(_inside(pattern))
        except ValueError:
            continue
        if regex is None or hides is None:
            continue
        remaining_chars -= len(pattern)
        if remaining_chars < 0:
            return
        yield _exact(regex), hides


def _inside(pattern: str) -> str:
    """`a/**/` fits the folders in `a`, never `a` itself."""
    return f"{pattern}*/" if pattern.endswith("/**/") else pattern


def _exact(regex: str) -> str:
    """For the path itself: pathspec's also fit all that is in a folder that they fit, so that a
    later `!folder` would bring back what an earlier pattern leaves out within it."""
    if regex.endswith(_ANY_END):
        return f"{regex.removesuffix(_ANY_END)}/?$"
    if regex.endswith(_FOLDER_END):
        return f"{regex.removesuffix(_FOLDER_END)}/$"
    # `a/**`: all that is in the folder.
    return f"{regex}." if regex.endswith("/") else regex
