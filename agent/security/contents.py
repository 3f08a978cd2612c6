"""The files whose contents a shell line runs, so that a consent can be bound to them."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent.security.place import place_of
from agent.security.script import Command
from agent.security.shell import parse
from agent.security.table import interpreters


def contents_digest(line: str, folder: Path, workspace: Path) -> str | None:
    """A hash of the scripts that `line` names and of what they hold now; None without any.

    Scripts are programs with a slash in their name, the files that an interpreter is given, a
    module of Python's `-m`, and what `make` and its like read by themselves. What a script loads
    in turn is not among them. May block: it reads the files.
    """
    script = parse(line)
    place = place_of(script, folder, workspace)
    folders = place.folders if place is not None else (str(folder),)
    found = {path for each in script.commands for path in _files(each, folders)}
    if not found:
        return None
    digest = hashlib.sha256()
    for path in sorted(found):
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
        reads = interpreters().get(program)
        if reads is None:
            continue
        yield from _given(command, folder)
        for each in reads:
            if os.path.isfile(path := _real(folder, each)):
                yield path


def _given(command: Command, folder: str) -> Iterator[str]:
    """The files among the arguments up to the script: what follows an option may be its value."""
    before = ""
    for word in command.argv[1:]:
        if word is None or "\0" in word:
            before = ""
            continue
        module = word.replace(".", "/")
        names = (f"{module}.py", f"{module}/__main__.py") if before == "-m" else (word,)
        paths = [path for each in names if os.path.isfile(path := _real(folder, each))]
        yield from paths
        if paths and before[:1] != "-":
            return
        before = word


def _real(folder: str, name: str) -> str:
    return os.path.realpath(os.path.join(folder, os.path.expanduser(name)))


def _content(path: str) -> str:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        return f"not read: {exc.errno}"
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        return "no file"
    with os.fdopen(opened, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
