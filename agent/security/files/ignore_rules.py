"""Matching of paths against `.gitignore` files.

pathspec translates the patterns and RE2 matches them in linear time, because a cloned repository
may contain patterns (`*a*a*a*a*…`) that keep a backtracking engine busy for hours.
https://git-scm.com/docs/gitignore#_pattern_format
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.records import frozen

if TYPE_CHECKING:
    from re2 import Set

NAME = ".gitignore"
MAX_BYTES = 1_000_000
# Limits for all patterns of a file and for one pattern; anything beyond is ignored.
MAX_PATTERNS_CHARS = 50_000
MAX_PATTERN_CHARS = 500
# Return the bytes of a `.gitignore`, or None if it does not exist or may not be read.
Read = Callable[[Path], bytes | None]

# Total size of the patterns matched in one pass; with more, RE2's memory limit makes it slow.
_MAX_GROUP_CHARS = 1_500
# Suffixes that pathspec gives to patterns for files and folders, and for folders only.
_ANY_END = "(?:(?P<ps_d>/)|$)"
_FOLDER_END = "(?P<ps_d>/)"


@frozen
class _PatternGroup:
    """Consecutive patterns of a file, each with a flag: ignore or re-include."""

    patterns: "Set"
    hides: tuple[bool, ...]


_Rules = tuple[_PatternGroup, ...]


@frozen
class _Level:
    """Rules that apply in one folder.

    Each item of `rules` has the depth of a `.gitignore` below the root and its rules, innermost
    first. `ignored` marks a folder that is ignored as a whole.
    """

    ignored: bool
    rules: tuple[tuple[int, _Rules], ...]


class Ignores:
    """Rules for the paths below `start`, from the `.gitignore` files between `root` and the paths.

    A caller that starts in an ignored folder wants to see its contents. There, only the
    `.gitignore` files inside that folder count.
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
        """Return whether the path `start/parts…` or one of its parent folders is ignored."""
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
    """Return the verdict of the last matching pattern; the innermost `.gitignore` decides first."""
    for depth, rules in level.rules:
        # Names are bytes. Bytes that are not UTF-8 match wildcards only.
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
        if chars > _MAX_GROUP_CHARS and patterns:
            groups += _compile(patterns)
            patterns, chars = [], len(regex)
        patterns.append((regex, hides))
    return (*groups, *_compile(patterns))


def _compile(patterns: Sequence[tuple[str, bool]]) -> Iterator[_PatternGroup]:
    """Compile patterns into as few groups as RE2's memory allows; skip unsupported patterns."""
    # Imported on first use, because most folders have no patterns.
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
    """Yield each pattern of a file as a regular expression, with True if it ignores."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    remaining_chars = MAX_PATTERNS_CHARS
    for line in text.removeprefix("\ufeff").split("\n"):
        pattern = line.removesuffix("\r")
        if pattern in ("!", "!/", "//") or not 0 < len(pattern) <= MAX_PATTERN_CHARS:
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
    """Return a pattern that matches as git does: `a/**/` matches folders in `a`, but not `a`."""
    return f"{pattern}*/" if pattern.endswith("/**/") else pattern


def _exact(regex: str) -> str:
    """Return an expression that matches the path itself, but nothing inside it.

    The expressions of pathspec also match everything inside a matching folder, so a later `!folder`
    would re-include what an earlier pattern ignores inside it.
    """
    if regex.endswith(_ANY_END):
        return f"{regex.removesuffix(_ANY_END)}/?$"
    if regex.endswith(_FOLDER_END):
        return f"{regex.removesuffix(_FOLDER_END)}/$"
    # `a/**` matches everything inside the folder.
    return f"{regex}." if regex.endswith("/") else regex
