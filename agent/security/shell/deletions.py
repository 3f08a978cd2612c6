"""Detection of files that a shell script deletes, from the words of its commands.

Moving a `.git` folder counts as well, because its protection does not move with it.
"""

import glob
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agent.records import frozen
from agent.security.files.instruction_files import GIT
from agent.security.files.paths import normalize_filename
from agent.security.shell.ast import Command, Script
from agent.security.shell.path_scope import loop_values
from agent.security.shell.words import is_pattern

_REMOVERS = frozenset({"rm", "rmdir", "shred", "unlink"})
# Only scripts that match are examined.
_HINT = re.compile(r"\b(?:rm|rmdir|shred|unlink|clean)\b|-delete\b|\bmv\b.*\.git\b", re.DOTALL)
_QUOTES = re.compile(r"\\\n|[\\'\"]")
_MAX_MATCHES = 10_000


@frozen
class DeletionTargets:
    """Targets of a deletion.

    `paths` are deleted; below `search_roots` the program chooses what to delete.
    """

    paths: tuple[Path, ...]
    search_roots: tuple[Path, ...]


def may_delete(command: str) -> bool:
    """Return whether a command line contains a deleting word, with any quoting."""
    return _HINT.search(_QUOTES.sub("", command)) is not None


def deletion_targets(
    script: Script, folders: tuple[Path, ...] | None, root: Path
) -> DeletionTargets | None:
    """Return what the script deletes, or None if no word deletes anything.

    `folders` are the working folders of its commands, None if unknown. May block.
    """
    paths: dict[Path, None] = {}
    search_roots: dict[Path, None] = {}
    if script.opaque_reason and may_delete(script.text):
        search_roots[root] = None
    for command in script.commands:
        for folder in folders or (root,):
            for path, is_chosen in _targets(command, script, folder, root):
                if folders is None:
                    search_roots[root] = None
                else:
                    (search_roots if is_chosen else paths)[path] = None
    return DeletionTargets(tuple(paths), tuple(search_roots)) if paths or search_roots else None


def _targets(
    command: Command, script: Script, folder: Path, root: Path
) -> Iterator[tuple[Path, bool]]:
    """Yield each path that a command deletes, and whether the command chooses below it."""
    if command.program in _REMOVERS:
        yield from _removed(command, script, folder, root)
    elif command.program == "mv":
        yield from _moved_stores(command, folder)
    elif command.program == "find" and "-delete" in command.argv:
        starts = list(_starts(command))
        yield from ((root if start is None else _path(folder, start), True) for start in starts)
    elif command.program == "git" and "clean" in command.argv and _cleans_ignored(command):
        yield folder, True


def _removed(
    command: Command, script: Script, folder: Path, root: Path
) -> Iterator[tuple[Path, bool]]:
    names = 0
    takes_options = True
    for word, source in zip(command.argv[1:], command.words[1:], strict=False):
        if word is not None and takes_options and word[:1] == "-" and word != "-":
            takes_options = word != "--"
            continue
        names += 1
        values = (word,) if word is not None else loop_values(source, script)
        if values is None or any("{}" in value for value in values):
            yield root, True
            continue
        for value in values:
            # The values of a loop variable may contain wildcards.
            if not is_pattern(source if word is not None else value):
                yield _path(folder, value), False
                continue
            matches = glob.iglob(value, root_dir=folder)
            yield from ((_path(folder, match), False) for match in islice(matches, _MAX_MATCHES))
    if not names:
        # The names are added at run time, for example by xargs.
        yield root, True


def _moved_stores(command: Command, folder: Path) -> Iterator[tuple[Path, bool]]:
    for word in command.argv[1:]:
        if word is not None and normalize_filename(os.path.basename(os.path.normpath(word))) == GIT:
            path = _path(folder, word)
            if path.is_dir() and not path.is_symlink():
                yield path, False


def _starts(command: Command) -> Iterator[str | None]:
    """Yield the starting points of a `find`, None for a computed one."""
    count = 0
    for word in command.argv[1:]:
        if word is not None and (word[:1] == "-" or word in ("(", "!")):
            break
        count += 1
        yield word
    if not count:
        yield "."


def _cleans_ignored(command: Command) -> bool:
    words = [word or "" for word in command.argv]
    is_trial = any(re.fullmatch(r"-\w*n\w*|--dry-run", word) for word in words)
    return not is_trial and any(re.fullmatch(r"-\w*[xX]\w*", word) for word in words)


def _path(folder: Path, word: str) -> Path:
    """Return the path that is deleted: for a link, the link itself and not its target."""
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(word.replace("\0", ""))))
    above, name = os.path.split(path)
    return Path(os.path.realpath(above)) / name
