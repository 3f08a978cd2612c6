"""Patterns of paths: `*` stays within a folder, `**` is any number of folders, also none.

Matching takes no longer than path times pattern, whatever stands in either of them.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase


def matches(parts: Sequence[str], globs: Sequence[str]) -> bool:
    """Whether the components of a path match those of a pattern.

    One pass that goes back to the last `**` only, so that no pattern is slow on any path.
    """
    at = n = again = 0
    last: int | None = None
    while at < len(parts):
        if n < len(globs) and globs[n] == "**":
            last, again = n, at
            n += 1
        elif n < len(globs) and fnmatchcase(parts[at], globs[n]):
            at, n = at + 1, n + 1
        elif last is not None:
            again += 1
            at, n = again, last + 1
        else:
            return False
    return all(glob == "**" for glob in globs[n:])
