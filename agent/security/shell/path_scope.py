"""Check that the words of a command refer only to paths inside the workspace."""

import os
import re
import stat
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from agent.records import frozen
from agent.security.files.private_places import PRIVATE_NAMES
from agent.security.shell.ast import Redirect, Script
from agent.security.shell.words import GLOB

STREAMS = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "-"})
FOLDERS_LIMIT = 16
# After one of these, a word may continue with another path: `if=/x`, `a:/b`, `@/x`.
JOINTS = re.compile(r"[=:,@]")
GLUED = re.compile(r"-[A-Za-z0-9]*")
LOOPED = re.compile(r"([\w./-]*)\$(?:\{(\w+)\}|(\w+))([\w./-]*)")


@frozen
class SandboxScope:
    """Parts of the sandbox that only the commands of one conversation use.

    `has_own_network`: at 127.0.0.1 they reach only each other and, at the `service_ports`, local
    services. `lasting_services` are the local services that they reach and whose data matter.
    `temporary` is the path of their folder of temporary files, which no other program
    uses, or None. `programs` are the folders outside of the workspace whose programs they can read
    and run. `folders` are real folders outside of the workspace that they can change like it.
    """

    has_own_network: bool = False
    service_ports: frozenset[int] = frozenset()
    lasting_services: tuple[str, ...] = ()
    temporary: str | None = None
    programs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def shows_program(self, path: str) -> bool:
        """Return whether a program, given by its absolute path, is in one of the folders."""
        is_plain = path == os.path.normpath(path) and not GLOB.search(path)
        return is_plain and any(path.startswith(f"{folder}/") for folder in self.programs)


NO_SANDBOX = SandboxScope()


@frozen
class PathScope:
    """Real workspace `root` and the real `folders` in which a script's commands may run."""

    root: str
    folders: tuple[str, ...]
    moves: bool = False
    sandbox: SandboxScope = NO_SANDBOX

    def holds(self, word: str) -> bool:
        """Return whether every path that the argument `word` can name is inside the workspace."""
        if word in STREAMS:
            return True
        if word[:1] == "-":
            word = word[2:] if word[:2] == "--" else GLUED.sub("", word, count=1)
            word = word.partition("=")[2] if "=" in word else word
        if not self._inside(word):
            return False
        return not JOINTS.search(word) or all(map(self._inside, JOINTS.split(word)[1:]))

    def holds_program(self, path: str) -> bool:
        """Return whether a program's file, or the link to it, is inside the workspace."""
        folder, _, name = path.rpartition("/")
        return name.casefold() not in {"", ".", "..", *PRIVATE_NAMES} and self._inside(f"{folder}/")

    def _inside(self, path: str) -> bool:
        if not path:
            return True
        if path[0] == "~" or "\0" in path or (self.moves and ".." in path.split("/")):
            return False
        if self._is_temporary(path):
            return True
        try:
            return all(self._stays(folder, path) for folder in self.folders)
        except OSError:
            return False

    def _is_temporary(self, path: str) -> bool:
        """Return whether the path is in the conversation's own folder of temporary files.

        Links in it are not resolved, because they only lead to files that the sandbox exposes.
        """
        place = self.sandbox.temporary
        if place is None or not (path == place or path.startswith(f"{place}/")):
            return False
        if path == self.root or path.startswith(f"{self.root}/"):
            return False
        parts = path.casefold().split("/")
        return ".." not in parts and PRIVATE_NAMES.isdisjoint(parts)

    def _stays(self, folder: str, path: str) -> bool:
        """Return whether `path`, relative to `folder`, stays inside.

        Walks the components itself, which is faster than `os.path.realpath`.
        """
        absolute = path[0] == "/"
        real = "" if absolute else folder
        exists = True
        for part in path.split("/"):
            if part in ("", "."):
                continue
            if part[0] == "." and GLOB.search(part):
                if _may_match(part, {"..", *PRIVATE_NAMES}):
                    return False
            elif part == "..":
                real = os.path.dirname(real)
                continue
            elif part.casefold() in PRIVATE_NAMES:
                return False
            real = f"{real}/{part}"
            if exists and not GLOB.search(part):
                try:
                    exists, is_link = True, stat.S_ISLNK(os.lstat(real).st_mode)
                except FileNotFoundError:
                    exists = is_link = False
                if is_link:
                    real = os.path.realpath(real)
        return self.includes(real)

    def includes(self, real: str) -> bool:
        """Return whether a real path is in the workspace, or in a folder that counts like it."""
        roots = (self.root, *self.sandbox.folders)
        return any(real == root or real.startswith(root + "/") for root in roots)


def place_of(
    script: Script, folder: Path, workspace: Path, sandbox: SandboxScope = NO_SANDBOX
) -> PathScope | None:
    """Return the scope in which `script` runs, or None if it is unknown or outside."""
    root = str(workspace)
    folders = [str(folder)]
    moves = [c for c in script.commands if c.argv and c.argv[0] in ("cd", "pushd", "popd")]
    for command in moves:
        target = command.argv[1] if len(command.argv) == 2 else None
        if command.argv[0] != "cd" or not target or target[0] in "-~" or GLOB.search(target):
            return None
        folders += [os.path.realpath(os.path.join(start, target)) for start in folders]
        if len(folders) > FOLDERS_LIMIT:
            return None
    place = PathScope(root, tuple(dict.fromkeys(folders)), bool(moves), sandbox)
    return place if all(map(place.includes, place.folders)) else None


def redirect_targets(redirect: Redirect, script: Script) -> tuple[str, ...] | None:
    """Return the files of a redirection (several for a loop variable), or None if they are unknown.

    Patterns are resolved only for reading.
    """
    if redirect.target is not None:
        return (redirect.target,)
    values = loop_values(redirect.source, script)
    if values is None or (redirect.op != "<" and any(map(GLOB.search, values))):
        return None
    return values


def loop_values(word: str, script: Script) -> tuple[str, ...] | None:
    """Return the values of the source text `word` if it refers to a loop variable, else None."""
    if word[:2] in ("<(", ">("):
        return ("/dev/stdin",)
    if len(word) > 1 and word[0] == word[-1] == '"':
        word = word[1:-1]
    match = LOOPED.fullmatch(word)
    values = script.loop_values.get(match[2] or match[3]) if match else None
    if match is None or values is None:
        return None
    if any(len(value.split()) != 1 for value in values):
        return None
    return tuple(f"{match[1]}{value}{match[4]}" for value in values) or None


def is_looped_text(word: str, script: Script) -> bool:
    """Return whether `word` refers to a loop variable that never holds an option or a pattern."""
    values = loop_values(word, script)
    return bool(values) and not any(value[0] == "-" or GLOB.search(value) for value in values or ())


def _may_match(pattern: str, names: Iterable[str]) -> bool:
    # Wildcards do not match a leading dot, so only patterns that begin with a dot get here.
    pattern = pattern.casefold()
    return any(fnmatchcase(name, pattern) for name in names)
