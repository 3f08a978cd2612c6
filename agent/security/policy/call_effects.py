"""What a call would touch, worked out once from its plan and, for a command, from its script."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent.records import frozen
from agent.security.files.instruction_files import (
    is_instruction_file,
    is_self_running,
    may_steer,
)
from agent.security.policy.base import ToolRequest
from agent.security.shell.ast import Command
from agent.security.shell.classifier import CommandClass, classify
from agent.security.shell.parser import Script, parse_script

_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_READING = frozenset({"<", "<>"})
# No files: where a stream goes anyway, and where it ends.
_STREAMS = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "-"})
_MOVES = frozenset({"cd", "pushd", "popd"})
_FOLDERS_LIMIT = 16
_MAKING = frozenset({"cp", "install", "ln", "mkdir", "mv", "rsync", "tee", "touch"})


@frozen
class CallEffects:
    """A call with all that is known about it.

    `root` is the real workspace. `reads` and `writes` are real paths, those that a command's
    redirections name among them. `kind` is the class of a command, `unclear_reason` why it
    cannot be told what it does. `changes_instructions` says that it would write something that
    later turns read as instructions, `creates_self_running` that it would create a file that other
    programs run by themselves, where strangers may have a say in that.
    """

    request: ToolRequest
    root: Path
    reads: tuple[Path, ...]
    writes: tuple[Path, ...]
    script: Script | None = None
    kind: CommandClass | None = None
    unclear_reason: str | None = None
    changes_instructions: bool = False
    creates_self_running: bool = False

    @property
    def is_command(self) -> bool:
        return self.script is not None

    @property
    def only_reads(self) -> bool:
        """Whether it is a command that looks, and runs where it can do nothing else."""
        return self.kind == "reads" and self.request.read_only

    @property
    def leaves_workspace(self) -> bool:
        """Whether something outside of the workspace would be written, or read by a command."""
        touched = self.writes + self.reads if self.is_command else self.writes
        return not all(path.is_relative_to(self.root) for path in touched)


def call_effects(request: ToolRequest) -> CallEffects:
    """Everything that can be told about a call without running it."""
    real = os.path.realpath(request.workspace)
    root = request.workspace if real == str(request.workspace) else Path(real)
    writes = request.changes + request.creates
    if request.command is None:
        # A tool that remembers writes one dated line into the person's memory file.
        changes_instructions = request.purpose != "memory" and _changes_any_instruction(
            writes, root
        )
        return CallEffects(
            request,
            root,
            request.reads or _named_path(request),
            writes,
            changes_instructions=changes_instructions,
            creates_self_running=_creates_self_running(request, request.creates, root),
        )
    script = parse_script(request.command)
    folder = request.folder or root
    kind = classify(script, folder, root)
    unclear = script.opaque_reason or _why_computed(script)
    folders = possible_folders(script, folder)
    if folders is None:
        unclear = unclear or "the folder that its parts run in is unclear"
        folders = (folder,)
    reads = tuple(_targets(script, folders, _READING))
    writes += tuple(_targets(script, folders, _WRITING))
    changes_instructions = _changes_any_instruction(writes, root)
    if not (kind == "reads" and request.read_only) and not changes_instructions:
        names = [str(each) for each in folders]
        changes_instructions = any(may_steer(word, names, str(root)) for word in _arguments(script))
    return CallEffects(
        request,
        root,
        request.reads + reads,
        writes,
        script,
        kind,
        unclear,
        changes_instructions=changes_instructions,
        creates_self_running=request.foreign
        and _creates_self_running(request, [*writes, *_created(script, folders)], root),
    )


def _creates_self_running(request: ToolRequest, paths: Iterable[Path], root: Path) -> bool:
    if not request.foreign:
        return False
    return bool(request.executables) or any(
        is_self_running(str(path), str(root)) and not os.path.lexists(path) for path in paths
    )


def _created(script: Script, folders: tuple[Path, ...]) -> Iterator[Path]:
    """The files that simple commands name as those which they make. What others make is not known
    before they run."""
    for command in script.commands:
        if command.program not in _MAKING:
            continue
        for word in _argument_words(command):
            for folder in folders if word and "\0" not in word else ():
                yield Path(os.path.normpath(folder / word))


def _named_path(request: ToolRequest) -> tuple[Path, ...]:
    """The path that the arguments of a tool without a plan name, as far as they do."""
    path = request.arguments.get("path")
    if not isinstance(path, str) or request.changes or request.creates or "\0" in path:
        return ()
    return (Path(os.path.realpath(request.workspace / path)),)


def _changes_any_instruction(paths: Iterable[Path], root: Path) -> bool:
    return any(is_instruction_file(str(path), str(root)) for path in paths)


def _why_computed(script: Script) -> str | None:
    """Why a part of the script cannot be judged: its program, or a file that it writes."""
    for command in script.commands:
        if command.argv and command.argv[0] is None:
            return "it computes the name of a program when it runs"
        for redirect in command.redirects:
            if redirect.target is None and redirect.op in _WRITING | _READING:
                return "it computes the name of a file when it runs"
    return None


def possible_folders(script: Script, folder: Path) -> tuple[Path, ...] | None:
    """Return every folder that a part of the script may run in; None when that cannot be told."""
    folders = [folder]
    for command in script.commands:
        if command.program not in _MOVES:
            continue
        words = command.argv[1:]
        if command.program != "cd" or len(words) != 1 or not words[0] or words[0][0] in "-~":
            return None
        folders += [Path(os.path.realpath(start / words[0])) for start in folders]
        if len(folders) > _FOLDERS_LIMIT:
            return None
    return tuple(dict.fromkeys(folders)) if len(folders) > 1 else (folder,)


def _targets(
    script: Script, folders: tuple[Path, ...], operators: frozenset[str]
) -> Iterator[Path]:
    """The files that redirections name, wherever they may lie."""
    for command in script.commands:
        for redirect in command.redirects:
            target = redirect.target
            if redirect.op not in operators or target is None or _is_stream(target):
                continue
            for folder in folders:
                yield Path(os.path.realpath(folder / target))


def _is_stream(target: str) -> bool:
    return target in _STREAMS or target.rstrip("-").isdigit() or target.startswith("/dev/fd/")


def _arguments(script: Script) -> Iterator[str]:
    """Every word that a program is given, and what stands behind `=` in one."""
    for command in script.commands:
        for word in _argument_words(command):
            yield word
            if "=" in word:
                yield word.partition("=")[2]


def _argument_words(command: Command) -> Iterator[str]:
    # A word that is computed may hold a pattern; its source is better than nothing.
    for n, word in enumerate(command.argv[1:], 1):
        source = command.words[n] if n < len(command.words) else ""
        yield source if word is None else word
