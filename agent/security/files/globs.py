"""Glob patterns for paths: `*` stays within a folder, `**` matches zero or more folders.

Matching takes at most time proportional to the product of path and pattern length.
"""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from agent.errors import ToolError


def matches(
    parts: Sequence[str],
    globs: Sequence[str],
    fits: Callable[[str, str], bool] = fnmatchcase,
) -> bool:
    """Return whether the components of a path match the components of a pattern.

    Backtracks to the last `**` only, so no pattern is slow on any path. `fits` compares a component
    of the path with a component of the pattern.
    """
    at = n = again = 0
    last: int | None = None
    while at < len(parts):
        if n < len(globs) and globs[n] == "**":
            last, again = n, at
            n += 1
        elif n < len(globs) and fits(parts[at], globs[n]):
            at, n = at + 1, n + 1
        elif last is not None:
            again += 1
            at, n = again, last + 1
        else:
            return False
    return all(glob == "**" for glob in globs[n:])


PATTERN_LIMIT_CHARS = 1_000

MAX_ALTERNATIVES = 256

_BRACES = re.compile(r"\{([^{}]*)\}")


class FilePattern:
    """Glob pattern with `*` and `?` within a name, `**` for folders and `{a,b}` for alternatives.

    `[ab]` matches one of these characters and also itself. A pattern without a slash matches a name
    in any folder. Raises ToolError for an invalid pattern.
    """

    def __init__(self, pattern: str) -> None:
        if not pattern.strip() or len(pattern) > PATTERN_LIMIT_CHARS:
            raise ToolError(
                f"A glob has 1 to {PATTERN_LIMIT_CHARS:,} characters, found {len(pattern):,}."
            )
        self._globs = [_parts(alternative) for alternative in _alternatives(pattern)]

    def matches(self, parts: Sequence[str]) -> bool:
        """Return whether a path matches; `parts` are relative to the searched folder."""
        return any(matches(parts, glob, _fits) for glob in self._globs)


def _fits(name: str, glob: str) -> bool:
    """Return whether a name matches, with brackets as a class or as themselves.

    Frameworks use names such as `[id]`, which a model quotes in a pattern.
    """
    return fnmatchcase(name, glob) or ("[" in glob and fnmatchcase(name, glob.replace("[", "[[]")))


def _alternatives(pattern: str) -> list[str]:
    pending, patterns = [pattern], []
    while pending:
        alternative = pending.pop()
        braces = _BRACES.search(alternative)
        if braces is None:
            patterns.append(alternative)
        else:
            head, tail = alternative[: braces.start()], alternative[braces.end() :]
            pending += [f"{head}{choice}{tail}" for choice in braces[1].split(",")]
        if len(pending) + len(patterns) > MAX_ALTERNATIVES:
            raise ToolError(f"The glob {pattern[:80]!r} expands to too many patterns; split it.")
    return patterns


def _parts(pattern: str) -> tuple[str, ...]:
    parts = tuple(part for part in pattern.split("/") if part not in ("", "."))
    if ".." in parts or not parts:
        raise ToolError(f"The glob {pattern[:80]!r} matches nothing; pass the folder as path.")
    return parts if "/" in pattern else ("**", *parts)
