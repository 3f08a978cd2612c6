"""Files that a shell line runs, so that an approval can be bound to their contents."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

from agent.records import frozen
from agent.security.shell.ast import Command, Script
from agent.security.shell.classifier import SYSTEM_FOLDERS, WRITES, classify_command
from agent.security.shell.parser import parse_script
from agent.security.shell.path_scope import STREAMS, PathScope, place_of
from agent.security.shell.program_arguments import CommandClass
from agent.security.shell.program_table import (
    ScriptRunner,
    file_handlers,
    interpreters,
    programs,
    script_runners,
)
from agent.security.shell.variables import is_risky

# Files that Python and node run when they are given a folder.
_MAIN = ("__main__.py", "index.js")
# A larger file is identified by its device, inode, size and times.
_MAX_HASHED_BYTES = 8_000_000
# Effect of a command: it only reads files, writes files, runs the bound files, or may run others.
_Role = Literal["reads", "writes", "runs", "unbound"]
_COPIES_INPUT = ("tee", "sponge")
_STREAMS = {os.path.realpath(path) for path in STREAMS if path != "-"} | {"/dev/null"}
_Entry = TypeVar("_Entry")


@frozen
class ScriptContents:
    """Files that a line runs.

    `digest` is a hash of their paths and contents, None without any. `unbound` names the first
    program of the line that may run other files, or None. An approval bound to the digest covers
    everything that the line runs only if `unbound` is None.
    """

    digest: str | None = None
    unbound: str | None = None


def script_contents(line: str, folder: Path, workspace: Path) -> ScriptContents:
    """Return the files that `line` runs as programs in the real `folder`.

    These are programs in the workspace, files passed to an interpreter as arguments or input,
    modules of Python's `-m`, and files that `make` and similar programs read by default, in their
    folder or above. A program that may run other files is unbound, and then all files that it names
    count. Files that a script loads in turn are not included. May block, because it reads files.
    """
    script = parse_script(line)
    place = place_of(script, folder, workspace)
    folders = place.folders if place else (str(folder),)
    scope = _Scope(script, place, folders, str(workspace), _own_path(folders, str(workspace)))
    paths: set[str] = set()
    roles: set[_Role] = set()
    unbound = None
    outputs: set[str] = set()
    for command in script.commands:
        role = scope.role(command)
        roles.add(role)
        outputs.update(scope.outputs(command))
        paths.update(scope.scripts(command))
        if role == "unbound" or script.opaque_reason is not None:
            paths.update(scope.named_files(command))
            unbound = unbound or command.program or _source_of(command)
    if unbound is None and (
        script.opaque_reason is not None
        or any(map(is_risky, script.assigned_names))
        # One command may write the script that another runs.
        or {"writes", "runs"} <= roles
        or not _identities(outputs).isdisjoint(_identities(paths))
    ):
        unbound = next((c.program for c in script.commands if c.program), _source_of(script))
    return ScriptContents(_digest(paths), unbound)


def _own_path(folders: Iterable[str], workspace: str) -> tuple[str, ...]:
    """Return the folders of PATH that are in the workspace."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    real = {
        os.path.realpath(os.path.join(folder, entry)) for folder in folders for entry in entries
    }
    return tuple(sorted(path for path in real if f"{path}/".startswith(f"{workspace}/")))


def _source_of(part: Command | Script) -> str:
    return (part.text.split() or ["?"])[0]


@frozen
class _Scope:
    """Folders in which the commands of a line run, and the files that they run there.

    `own_path` contains the folders in the workspace that are searched for programs.
    """

    script: Script
    place: PathScope | None
    folders: tuple[str, ...]
    workspace: str
    own_path: tuple[str, ...]

    def role(self, command: Command) -> _Role:
        name, program = command.argv[0] if command.argv else None, command.program
        # A variable may choose what a program loads.
        if command.assignments or (command.argv and name is None):
            return "unbound"
        if name is None or program is None:
            return "reads"
        is_own = self._is_own(name)
        is_system = "/" not in name or os.path.dirname(name) in SYSTEM_FOLDERS
        runner = _entry(script_runners(), program)
        if runner is not None and (is_own or is_system):
            return "runs" if self._is_bound(command, runner) else "unbound"
        if is_own:
            is_known = program in programs() or f"./{program}" in programs()
            return "unbound" if is_known else "runs"
        handlers, kind = file_handlers(), self._class(command)
        if is_system and (kind == "reads" or program in (*handlers.passes_on, *_COPIES_INPUT)):
            return "reads"
        first = command.argv[1] if len(command.argv) > 1 else None
        if is_system and (
            program in handlers.always
            or first in handlers.sub.get(program, ())
            or (program in handlers.when_judged and kind == "works")
        ):
            return "writes"
        return "unbound"

    def scripts(self, command: Command) -> Iterator[str]:
        """Yield the real paths of the files that the command runs.

        Paths of programs are included even if they do not exist yet.
        """
        name, program = command.argv[0] if command.argv else None, command.program
        if name is None or program is None:
            return
        yield from self._program_files(name)
        if self._is_own(name) or program in file_handlers().sub:
            yield from self.named_files(command)
        reads = _entry(interpreters(), program)
        if reads is None:
            return
        runner = _entry(script_runners(), program)
        for folder in self.folders:
            if runner is not None and runner.every_word:
                yield from _files_in_words(command, folder, runner.flags)
            else:
                yield from _script_arguments(command, folder)
            yield from _input(command, folder)
            yield from self._unasked(folder, reads)

    def named_files(self, command: Command) -> Iterator[str]:
        """Yield the files that the command's words name."""
        for folder in self.folders:
            yield from _input(command, folder)
            for word in command.argv[1:]:
                paths = (_real(folder, name) for name in _names(word))
                yield from (path for path in paths if os.path.isfile(path))

    def outputs(self, command: Command) -> Iterator[str]:
        """Yield the files that the command's redirections and `tee` write."""
        targets = [redirect.target for redirect in command.redirects if _is_output(redirect.op)]
        if command.program in _COPIES_INPUT:
            targets += command.argv[1:]
        for folder in self.folders:
            yield from (
                _real(folder, target) for target in targets if target and "\0" not in target
            )

    def _class(self, command: Command) -> CommandClass:
        """Return the class of the program alone, without its redirections."""
        if self.place is None:
            return "unknown"
        return classify_command(replace(command, redirects=()), self.script, self.place)

    def _is_own(self, name: str) -> bool:
        """Return whether `name` refers to a program in the workspace."""
        if "/" not in name:
            return any(self._program_files(name))
        return any(self._is_inside(_parent(folder, name)) for folder in self.folders)

    def _program_files(self, name: str) -> Iterator[str]:
        if "/" in name:
            yield from (_real(folder, name) for folder in self.folders)
            return
        paths = (os.path.join(folder, name) for folder in self.own_path)
        yield from (os.path.realpath(path) for path in paths if os.path.isfile(path))

    def _is_inside(self, folder: str) -> bool:
        return folder == self.workspace or folder.startswith(f"{self.workspace}/")

    def _unasked(self, folder: str, names: Sequence[str]) -> Iterator[str]:
        """Yield the files of these names in the folder and in its parents in the workspace."""
        while names:
            # Missing files count too, because the line itself may write them.
            yield from (_real(folder, name) for name in names)
            if folder == self.workspace or not self._is_inside(folder):
                return
            folder = os.path.dirname(folder)

    def _is_bound(self, command: Command, runner: ScriptRunner) -> bool:
        """Return whether `scripts` yields all files that this interpreter runs."""
        words = command.argv[1:]
        if runner.every_word:
            return None not in words
        if runner.sub:
            return words[:1] != () and words[0] in runner.sub and _has_only(words, runner.options)
        for at, word in enumerate(words):
            following = words[at + 1] if at + 1 < len(words) else None
            if word is None:
                return False
            if word == "-" and runner.reads_input:
                break
            if word[:1] != "-":
                return any(os.path.isfile(_real(folder, word)) for folder in self.folders)
            if word == "-m" and runner.modules:
                return any(
                    os.path.isfile(_real(folder, name))
                    for folder in self.folders
                    for name in _module_files(following or "")
                )
            if len(word) < 2 or not set(word[1:-1]) <= set(runner.flags):
                return False
            if word[-1] in runner.code:
                return following is not None
            if word[-1] not in runner.flags:
                return False
        fed = [
            redirect
            for redirect in command.redirects
            if redirect.op.lstrip("0123456789")[:1] == "<"
        ]
        return len(fed) == 1 and fed[0].target is not None


def _is_output(op: str) -> bool:
    return op.lstrip("0123456789") in WRITES


def _identities(paths: Iterable[str]) -> set[object]:
    """Return the path, device and inode of each file, because several links may share a file."""
    identities: set[object] = set(paths)
    for path in paths:
        with suppress(OSError):
            info = os.stat(path)
            identities.add((info.st_dev, info.st_ino))
    return identities - _STREAMS


def _has_only(words: Sequence[str | None], options: Iterable[str]) -> bool:
    """Return whether the options before "--" are all among `options`."""
    for word in words:
        if word == "--":
            return True
        if word is None or (word[:1] == "-" and word not in options):
            return False
    return True


def _script_arguments(command: Command, folder: str) -> Iterator[str]:
    """Yield the files among the arguments up to the script.

    A word after an option, or text attached to it, may be its value. For a folder, yield the files
    that an interpreter looks for in it.
    """
    before = ""
    for word in command.argv[1:]:
        if word is None or "\0" in word:
            before = ""
            continue
        names = list(_names(word))
        if before == "-m" or word[:2] == "-m":
            names = _module_files(word if before == "-m" else word[2:])
        paths = [path for name in names for path in _script_files(_real(folder, name))]
        yield from paths
        if paths and word[:1] != "-" and before[:1] != "-":
            return
        before = word


def _files_in_words(command: Command, folder: str, flags: str) -> Iterator[str]:
    """Yield the files that the words may name and run, also relative to each folder they name.

    These are values of variables and options. A plain word is a target, unless it follows an option
    that is not one of `flags`.
    """
    names, before = [], ""
    for word in filter(None, command.argv[1:]):
        is_value = before[:1] == "-" and before[1:].rstrip("0123456789").strip(flags) != ""
        names += [name for name in _names(word) if is_value or name != word]
        before = word
    folders = [folder, *(path for name in names if os.path.isdir(path := _real(folder, name)))]
    for start in folders:
        for name in names:
            yield from _script_files(_real(start, name)) or [_real(start, name)]


def _names(word: str | None) -> Iterator[str]:
    """Yield the file names that a word may contain: itself, and the value attached to an option."""
    if word is None or "\0" in word:
        return
    glued = (word, word[2:] if word[:1] == "-" else "", word.partition("=")[2], word.lstrip("@"))
    yield from dict.fromkeys(filter(None, glued))


def _module_files(name: str) -> list[str]:
    module = name.replace(".", "/")
    return [f"{module}.py", f"{module}/__main__.py", f"{module}/__init__.py"] if module else []


def _script_files(path: str) -> list[str]:
    """Return the file, or the files in the folder that interpreters run by default."""
    if os.path.isfile(path):
        return [path]
    if not os.path.isdir(path):
        return []
    names = {*_MAIN, *(name for interpreter in interpreters().values() for name in interpreter)}
    inside = (_real(path, name) for name in sorted(names))
    return [path for path in inside if os.path.isfile(path)]


def _input(command: Command, folder: str) -> Iterator[str]:
    for redirect in command.redirects:
        if redirect.target is not None and redirect.op.lstrip("0123456789") in ("<", "<>"):
            yield from _script_files(_real(folder, redirect.target))


def _entry(table: Mapping[str, _Entry], program: str) -> _Entry | None:
    """Return the entry of the program or of its family: `python3.14` uses the entry of `python`."""
    return table.get(program, table.get(program.rstrip("0123456789.")))


def _parent(folder: str, name: str) -> str:
    return os.path.realpath(os.path.dirname(os.path.join(folder, os.path.expanduser(name))))


def _real(folder: str, name: str) -> str:
    return os.path.realpath(os.path.join(folder, os.path.expanduser(name)))


def _digest(paths: Iterable[str]) -> str | None:
    ordered = sorted(set(paths))
    if not ordered:
        return None
    digest = hashlib.sha256()
    for path in ordered:
        digest.update(f"{path}\0{_content(path)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _content(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        return f"not read: {exc.errno}"
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return "no file"
        if info.st_size > _MAX_HASHED_BYTES:
            times = f"{info.st_mtime_ns} {info.st_ctime_ns}"
            return f"{info.st_dev} {info.st_ino} {info.st_size} {times}"
        with open(fd, "rb", closefd=False) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    finally:
        os.close(fd)
