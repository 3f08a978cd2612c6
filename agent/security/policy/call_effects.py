"""Effects of a call, determined once from its plan and, for a command, from its script."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from agent.records import frozen
from agent.security.files.instruction_files import (
    is_instruction_file,
    is_self_running,
    may_steer,
)
from agent.security.policy.base import ToolRequest
from agent.security.shell.ast import Command
from agent.security.shell.classifier import CommandClass, classify, classify_command
from agent.security.shell.parser import Script, parse_script
from agent.security.shell.path_scope import PathScope, SandboxScope, place_of, redirect_targets

_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_READING = frozenset({"<", "<>"})
# Streams that are available anyway, not files.
_STREAMS = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "-"})
_FOLDER_COMMANDS = frozenset({"cd", "pushd", "popd"})
_MAX_FOLDERS = 16
_CREATING_COMMANDS = frozenset({"cp", "install", "ln", "mkdir", "mv", "rsync", "tee", "touch"})


@frozen
class CallEffects:
    """Call with everything known about it.

    `root` is the real workspace. `reads` and `writes` are real paths, including redirections of a
    command. `kind` is the class of a command, `unclear_reason` why its effects cannot be
    determined. `changes_instructions` means that it would write instructions for later turns,
    `creates_self_running` that it would create a file that other programs run automatically, in a
    folder that untrusted people may influence.
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
        """True for a read-only command in a sandbox where it cannot write."""
        return self.kind == "reads" and self.request.read_only

    @property
    def leaves_workspace(self) -> bool:
        """True if the call would write outside of the workspace, or a command would read there."""
        touched = self.writes + self.reads if self.is_command else self.writes
        temporary = self.request.sandbox_scope.temporary
        own = () if temporary is None else (Path(temporary),)
        added = map(Path, self.request.sandbox_scope.folders)
        folders = (self.root, *self.request.writable_folders, *own, *added)
        return not all(any(map(path.is_relative_to, folders)) for path in touched)


def call_effects(request: ToolRequest) -> CallEffects:
    """Determine the effects of a call without running it."""
    real = os.path.realpath(request.workspace)
    root = request.workspace if real == str(request.workspace) else Path(real)
    writes = request.changes + request.creates
    if request.command is None:
        # A tool that remembers writes one dated line to the person's memory file.
        changes_instructions = request.purpose != "memory" and any(
            _changes_any_instruction(writes, folder) for folder in (root, *request.writable_folders)
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
    kind = _class_of(script, folder, root, request.sandbox_scope)
    unclear = script.opaque_reason or _why_computed(script)
    folders = possible_folders(script, folder)
    if folders is None:
        unclear = unclear or "the folder that its parts run in is unclear"
        folders = (folder,)
    reads = tuple(_targets(script, folders, _READING))
    writes += tuple(_targets(script, folders, _WRITING))
    roots = (root, *map(Path, request.sandbox_scope.folders))
    changes_instructions = any(_changes_any_instruction(writes, start) for start in roots)
    if not (kind == "reads" and request.read_only) and not changes_instructions:
        names = [str(candidate) for candidate in folders]
        place = place_of(script, folder, root, request.sandbox_scope) if kind == "works" else None
        changes_instructions = any(
            may_steer(word, names, str(start))
            for word in _arguments(script, place)
            for start in roots
        )
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


def _class_of(
    script: Script, folder: Path, root: Path, sandbox_scope: SandboxScope
) -> CommandClass:
    """Return the class of a script. Folders that commands may change count as workspace.

    There it never counts as read-only: only the workspace is known to be harmless to read.
    """
    kind = classify(script, folder, root, replace(sandbox_scope, folders=()))
    if kind != "unknown" or not sandbox_scope.folders:
        return kind
    return "unknown" if classify(script, folder, root, sandbox_scope) == "unknown" else "works"


def _creates_self_running(request: ToolRequest, paths: Iterable[Path], root: Path) -> bool:
    if not request.foreign:
        return False
    return bool(request.executables) or any(
        is_self_running(str(path), str(root)) and not os.path.lexists(path) for path in paths
    )


def _created(script: Script, folders: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the files that simple commands create according to their arguments.

    Files of other commands are unknown before they run.
    """
    for command in script.commands:
        if command.program not in _CREATING_COMMANDS:
            continue
        for word in _argument_words(command):
            for folder in folders if word and "\0" not in word else ():
                yield Path(os.path.normpath(folder / word))


def _named_path(request: ToolRequest) -> tuple[Path, ...]:
    """Return the path in the arguments of a tool without a plan."""
    path = request.arguments.get("path")
    if not isinstance(path, str) or request.changes or request.creates or "\0" in path:
        return ()
    start_folder = request.start_folder or request.workspace
    return (Path(os.path.realpath(start_folder / path)),)


def _changes_any_instruction(paths: Iterable[Path], root: Path) -> bool:
    return any(is_instruction_file(str(path), str(root)) for path in paths)


def _why_computed(script: Script) -> str | None:
    """Return why part of the script cannot be judged: a computed program or file name."""
    for command in script.commands:
        if command.argv and command.argv[0] is None:
            return "it computes the name of a program when it runs"
        for redirect in command.redirects:
            is_file = redirect.op in _WRITING | _READING
            if is_file and redirect_targets(redirect, script) is None:
                return "it computes the name of a file when it runs"
    return None


def possible_folders(script: Script, folder: Path) -> tuple[Path, ...] | None:
    """Return every folder that a part of the script may run in, or None if unknown."""
    folders = [folder]
    for command in script.commands:
        if command.program not in _FOLDER_COMMANDS:
            continue
        words = command.argv[1:]
        if command.program != "cd" or len(words) != 1 or not words[0] or words[0][0] in "-~":
            return None
        folders += [Path(os.path.realpath(start / words[0])) for start in folders]
        if len(folders) > _MAX_FOLDERS:
            return None
    return tuple(dict.fromkeys(folders)) if len(folders) > 1 else (folder,)


def _targets(
    script: Script, folders: tuple[Path, ...], operators: frozenset[str]
) -> Iterator[Path]:
    """Yield the files of redirections in any of the folders."""
    for command in script.commands:
        for redirect in command.redirects:
            if redirect.op not in operators:
                continue
            for target in redirect_targets(redirect, script) or ():
                for folder in () if _is_stream(target) else folders:
                    yield Path(os.path.realpath(folder / target))


def _is_stream(target: str) -> bool:
    return target in _STREAMS or target.rstrip("-").isdigit() or target.startswith("/dev/fd/")


def _arguments(script: Script, place: PathScope | None) -> Iterator[str]:
    """Yield every argument that may name a file to change, and its part after `=`.

    A `place` means that the script works there: its read-only commands change nothing, and their
    output names no file for the others.
    """
    for command in script.commands:
        if place is not None and _changes_no_file(command, script, place):
            continue
        for word in _argument_words(command):
            yield word
            if "=" in word:
                yield word.partition("=")[2]


def _changes_no_file(command: Command, script: Script, place: PathScope) -> bool:
    # In a script of the class "works", curl writes no file.
    return command.program == "curl" or classify_command(command, script, place) == "reads"


def _argument_words(command: Command) -> Iterator[str]:
    # A computed word may contain a pattern, so its source is used.
    for n, word in enumerate(command.argv[1:], 1):
        source = command.words[n] if n < len(command.words) else ""
        yield source if word is None else word
