"""The files whose contents a shell line runs, so that a consent can be bound to them."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent.security.shell.ast import Command
from agent.security.shell.parser import parse_script
from agent.security.shell.path_scope import place_of
from agent.security.shell.program_table import interpreters

# What Python and node run of a folder.
_MAIN = ("__main__.py", "index.js")


def contents_digest(line: str, folder: Path, workspace: Path) -> str | None:
    """A hash of the scripts that `line` names and of what they hold now; None without any.

    Scripts are programs with a slash in their name, the files that an interpreter is given, also
    as its input, a module of Python's `-m`, and what `make` and its like read by themselves, here
    or in a folder that they are given. Of a line that is not understood all files that it names
    are. What a script loads in turn is not among them. May block: it reads the files.
    """
    script = parse_script(line)
    place = place_of(script, folder, workspace)
    folders = place.folders if place is not None else (str(folder),)
    paths = {path for each in script.commands for path in _files(each, folders)}
    if script.opaque_reason is not None:
        paths.update(path for each in script.commands for path in _named_files(each, folders))
    if not paths:
        return None
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path}\0{_content(path)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(command: Command, folders: Iterable[str]) -> Iterator[str]:
    """Real paths, of programs also where there is nothing yet."""
    name, program = command.argv[0] if command.argv else None, command.program
    if name is None or program is None:
        return
    for folder in folders:
        if "/" in name:
            yield _real(folder, name)
        reads = interpreters().get(program, interpreters().get(program.rstrip("0123456789.")))
        if reads is None:
            continue
        yield from _script_arguments(command, folder)
        yield from _input(command, folder)
        for each in reads:
            if os.path.isfile(path := _real(folder, each)):
                yield path


def _script_arguments(command: Command, folder: str) -> Iterator[str]:
    """The files among the arguments up to the script: what follows an option may be its value, and
    what is glued to it, too. Of a folder, what an interpreter looks for there."""
    before = ""
    for word in command.argv[1:]:
        if word is None or "\0" in word:
            before = ""
            continue
        glued = (word[2:], word.partition("=")[2]) if word[:1] == "-" else ()
        names = [*glued, word]
        if before == "-m" or word[:2] == "-m":
            module = (word if before == "-m" else word[2:]).replace(".", "/")
            names = [f"{module}.py", f"{module}/__main__.py", f"{module}/__init__.py"]
        paths = [path for name in names if name for path in _script_files(_real(folder, name))]
        yield from paths
        if paths and word[:1] != "-" and before[:1] != "-":
            return
        before = word


def _script_files(path: str) -> list[str]:
    """The file, or what interpreters read by themselves in the folder."""
    if os.path.isfile(path):
        return [path]
    if not os.path.isdir(path):
        return []
    names = {*_MAIN, *(name for each in interpreters().values() for name in each)}
    inside = (_real(path, name) for name in sorted(names))
    return [each for each in inside if os.path.isfile(each)]


def _input(command: Command, folder: str) -> Iterator[str]:
    for each in command.redirects:
        if each.target is not None and each.op.lstrip("0123456789") in ("<", "<>"):
            yield from _script_files(_real(folder, each.target))


def _named_files(command: Command, folders: Iterable[str]) -> Iterator[str]:
    """Every file that a command's words name, whatever it does with it."""
    for folder in folders:
        yield from _input(command, folder)
        for word in command.argv:
            if word is not None and "\0" not in word and os.path.isfile(_real(folder, word)):
                yield _real(folder, word)


def _real(folder: str, name: str) -> str:
    return os.path.realpath(os.path.join(folder, os.path.expanduser(name)))


def _content(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        return f"not read: {exc.errno}"
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return "no file"
    with os.fdopen(fd, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
