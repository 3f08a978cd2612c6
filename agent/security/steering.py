"""The files that steer: later turns read them as instructions or as what Kore knows."""

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase

from agent.security.names import folded

PROMPT_FILES = frozenset(
    {"identity.md", "agent.md", "soul.md", "user.md", "agents.md", "claude.md"}
)
PROMPT_FOLDERS = frozenset({"memory", "skills", ".kore", ".claude", ".kode"})
# What it says is done by turns that nobody has asked for; they change it themselves.
_HEARTBEAT = "heartbeat.md"
_NAMES = PROMPT_FILES | PROMPT_FOLDERS
_PATTERN = frozenset("*?[{")


def steers(path: str, root: str) -> bool:
    """Whether a path is such a file of the workspace `root`; both are normal and absolute."""
    first, single = _first(path, root)
    return first in PROMPT_FOLDERS or (single and first in PROMPT_FILES)


def plants(path: str, root: str) -> bool:
    """Whether a path is the file of what is to be done without being asked; as for `steers`."""
    return _first(path, root) == (_HEARTBEAT, True)


def may_steer(word: str, folders: Iterable[str], root: str) -> bool:
    """Whether a word of a command could name such a file, or stand for one as a pattern."""
    if not word or "\0" in word:
        return False
    is_pattern = not _PATTERN.isdisjoint(word)
    if not is_pattern and "/" not in word and word[0] != "." and folded(word) not in _NAMES:
        return any(steers(folder, root) for folder in folders)
    for folder in folders:
        path = os.path.normpath(os.path.join(folder, word))
        if steers(path, root):
            return True
        if is_pattern:
            first, single = _first(path, root)
            names = PROMPT_FOLDERS | PROMPT_FILES if single else PROMPT_FOLDERS
            # Braces are not expanded here; what they hold could be anything.
            if "{" in first or any(fnmatchcase(name, first) for name in names):
                return True
    return False


def _first(path: str, root: str) -> tuple[str, bool]:
    """The first name below the root, folded, and whether there is nothing behind it."""
    prefix = root.rstrip("/") + "/"
    if not path.startswith(prefix):
        return "", False
    first, slash, _ = path[len(prefix) :].partition("/")
    return folded(first), not slash
