"""Compilation databases for clangd, from a project's own file or from its build files.

Build files run programs, even in a dry run. So the build system runs as the server does: in the
sandbox, without network, with a read-only project, and not at all without a sandbox. Its output is
in the private folder of the server.

https://clang.llvm.org/docs/JSONCompilationDatabase.html
"""

import asyncio
import io
import json
import logging
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ToolError
from agent.records import frozen
from agent.security.files import file_io
from agent.security.shell.ast import Command
from agent.security.shell.grammar import new_parser
from agent.security.shell.parser import parse_script

if TYPE_CHECKING:
    from agent.security.grammars.parser_process import ParserProcess

log = logging.getLogger(__name__)

FILE_NAME = "compile_commands.json"
# Places in which clangd itself looks for the database of a folder.
_OWN_FILES = (FILE_NAME, f"build/{FILE_NAME}")
# Flags for all files of a folder: a person has configured clangd.
_OWN_FLAGS = "compile_flags.txt"
MAX_BYTES = 64_000_000
# For a configuration that compiles test programs; a dry run of make takes a second.
TIMEOUT_S = 60.0
_MAX_COMMANDS = 20_000
_MAX_PARSED_LINES = 20_000
_MAX_LINE_CHARS = 9_000

# Run a shell script in the sandbox with this text as its input, and return its output.
RunScript = Callable[[str, bytes], Awaitable[bytes]]


@frozen
class _BuildSystem:
    """Build system: a build file at the top of a project, and a script that prints its database.

    `$FOLDER` is the folder of the database.
    """

    name: str
    build_files: tuple[str, ...]
    script: str


_PRINT = f'cat "$FOLDER/{FILE_NAME}"'
_BUILD_SYSTEMS = (
    _BuildSystem(
        "cmake",
        ("CMakeLists.txt",),
        f'cmake -S . -B "$FOLDER" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >&2 && {_PRINT}',
    ),
    _BuildSystem(
        "meson",
        ("meson.build",),
        f'rm -rf "$FOLDER" && meson setup "$FOLDER" . >&2 && {_PRINT}',
    ),
    # All targets, with the folders of recursive calls, past errors.
    _BuildSystem(
        "make",
        ("GNUmakefile", "makefile", "Makefile"),
        "LC_ALL=C make --dry-run --always-make --print-directory --keep-going 2>/dev/null || true",
    ),
)
_STORE = f'mkdir -p "$FOLDER" && cat > "$FOLDER/{FILE_NAME}"'
BUILD_FILES = tuple(name for system in _BUILD_SYSTEMS for name in system.build_files)


class CompilationDatabase:
    """Compilation database of a project folder. `run` is None where no commands may run."""

    def __init__(
        self, folder: Path, run: RunScript | None, max_parsed_lines: int = _MAX_PARSED_LINES
    ) -> None:
        self._folder = folder
        self._run = run
        self._max_parsed_lines = max_parsed_lines
        self._generated: frozenset[Path] | None = None
        # A build system that failed or took too long is not asked again.
        self._has_failed = False

    async def prepare(self) -> str | None:
        """Generate the database if the project has none, and return its folder for the server.

        The folder is the text of a shell word. Returns None if the server finds the database of
        the project, or if there is none.
        """
        self._generated = None
        if self._run is None or self._has_failed:
            return None
        systems = await asyncio.to_thread(self._build_systems)
        for system in systems:
            folder = f'"${{TMPDIR:-/tmp}}/compilation-database/{system.name}"'
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    files = await self._generate(system, folder, self._run)
            except (TimeoutError, ToolError, OSError, ValueError, RecursionError) as exc:
                log.info(
                    "%s gave no compilation database of %s: %r", system.name, self._folder, exc
                )
                continue
            if files:
                self._generated = files
                return folder
        self._has_failed = bool(systems)
        return None

    def compiled_files(self, path: Path) -> frozenset[Path] | None:
        """Return the files of the database for a file, or None without a database. Blocks."""
        if self._generated is not None:
            return self._generated
        for parent in path.parents:
            for name in _OWN_FILES:
                try:
                    data = file_io.read(parent / name, MAX_BYTES)
                    return _files_of(json.loads(data))
                except (ToolError, ValueError, RecursionError):
                    continue
            if parent == self._folder:
                break
        return None

    def _build_systems(self) -> list[_BuildSystem]:
        """Return the build systems to ask, if the project has no database of its own."""
        if any((self._folder / name).exists() for name in (*_OWN_FILES, _OWN_FLAGS)):
            return []
        return [
            system
            for system in _BUILD_SYSTEMS
            if any((self._folder / name).is_file() for name in system.build_files)
        ]

    async def _generate(self, system: _BuildSystem, folder: str, run: RunScript) -> frozenset[Path]:
        """Generate the database in a folder and return its files.

        Raises `ToolError`, `OSError`, `ValueError` or `RecursionError`.
        """
        output = await run(f"FOLDER={folder}; {system.script}", b"")
        if system.name != "make":
            return await asyncio.to_thread(lambda: _files_of(json.loads(output)))
        is_cancelled = threading.Event()
        commands = commands_of_make(output, self._folder, is_cancelled, self._max_parsed_lines)
        try:
            entries = await asyncio.to_thread(list, commands)
        finally:
            # The thread of a cancelled call ends at its next line.
            is_cancelled.set()
        if entries:
            data = json.dumps([entry.to_json() for entry in entries]).encode()
            await run(f"FOLDER={folder}; {_STORE}", data)
        return frozenset(Path(entry.directory, entry.file) for entry in entries)


def has_database_argument(command: Sequence[str]) -> bool:
    """Return whether a person has told the server where its database is."""
    return any(word.startswith("--compile-commands-dir") for word in command)


def with_database(argv: Sequence[str], folder: str) -> tuple[str, ...]:
    """Return the command with the database in a folder, which is the text of a shell word."""
    script = f'exec "$0" "$@" --compile-commands-dir={folder}'
    return ("/bin/sh", "-c", script, *argv)


def _files_of(entries: Any) -> frozenset[Path]:
    """Return the normalized paths of a database. Raises `ValueError` for another value."""
    if not isinstance(entries, list):
        raise ValueError("not a compilation database")
    return frozenset(
        Path(os.path.normpath(os.path.join(entry["directory"], entry["file"])))
        for entry in entries
        if isinstance(entry, dict)
        and isinstance(entry.get("directory"), str)
        and isinstance(entry.get("file"), str)
    )


@frozen
class CompileCommand:
    """Call of a compiler in a directory for one source file."""

    directory: str
    file: str
    arguments: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"directory": self.directory, "file": self.file, "arguments": self.arguments}


_COMPILERS = frozenset({"cc", "gcc", "g++", "c++", "clang", "clang++"})
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".c++", ".C")
# Options whose value is the next word.
_WITH_VALUE = frozenset({"-o", "-MF", "-MT", "-MQ", "-I", "-D", "-U", "-include", "-isystem", "-x"})
_VERSION = re.compile(r"-[\d.]+$")


@cache
def _parser() -> "ParserProcess":
    """Return the parser for build files, which never delays the judgement of commands."""
    return new_parser()


def commands_of_make(
    output: bytes,
    folder: Path,
    is_cancelled: threading.Event,
    max_parsed_lines: int = _MAX_PARSED_LINES,
) -> Iterator[CompileCommand]:
    """Yield the compiler calls in the output of a dry run of make, until `is_cancelled`."""
    directories = [str(folder)]
    count = parsed_lines = 0
    for line in _lines(output):
        if is_cancelled.is_set():
            return
        if (entered := _entered_directory(line)) is not None:
            directories.append(entered)
            continue
        if line.startswith("make") and ": Leaving directory '" in line:
            directories = directories[:-1] or [str(folder)]
            continue
        # Parsing takes a process; most lines of a build call no compiler.
        if len(line) > _MAX_LINE_CHARS or not any(ending in line for ending in _SOURCES):
            continue
        parsed_lines += 1
        if parsed_lines > max_parsed_lines:
            log.info("make in %s: only the first %d lines were read", folder, max_parsed_lines)
            return
        directory = directories[-1]
        for command in parse_script(line, _parser()).commands:
            if command.program == "cd" and len(command.argv) == 2 and command.argv[1]:
                directory = os.path.normpath(os.path.join(directory, command.argv[1]))
            for entry in _compiler_call(command, directory):
                yield entry
                count += 1
                if count == _MAX_COMMANDS:
                    return


def _lines(output: bytes) -> Iterator[str]:
    """Yield the lines, with continued lines joined."""
    pending = ""
    for data in io.BytesIO(output):
        line = data.decode("utf-8", "replace").removesuffix("\n")
        if line.endswith("\\"):
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""


def _entered_directory(line: str) -> str | None:
    """Return the directory that make says it has entered."""
    who, is_entering, name = line.partition(": Entering directory '")
    is_from_make = who == "make" or (who.startswith("make[") and who.endswith("]"))
    return name.removesuffix("'") if is_entering and is_from_make else None


def _compiler_call(command: Command, directory: str) -> list[CompileCommand]:
    """Return an entry for each source file that a command compiles."""
    # Wrappers such as ccache and libtool come before the compiler.
    start = next((n for n, word in enumerate(command.argv) if word and _is_compiler(word)), None)
    if start is None:
        return []
    pairs = zip(command.argv[start:], command.words[start:], strict=True)
    words = [value for word, text in pairs if (value := _value(word, text)) is not None]
    sources = _sources(words)
    return [CompileCommand(directory, source, tuple(words)) for source in sources]


def _value(word: str | None, text: str) -> str | None:
    """Return a word; of a computed one, only a source without its folder.

    automake computes the folder of sources: `test -f 'a.c' || echo './'`a.c
    """
    if word is not None:
        return word
    end = re.split(r"[`)}]", text)[-1]
    return end if end.endswith(_SOURCES) else None


def _is_compiler(word: str) -> bool:
    name = _VERSION.sub("", word.rsplit("/", 1)[-1])
    return name in _COMPILERS or name.rsplit("-", 1)[-1] in _COMPILERS


def _sources(words: Sequence[str]) -> list[str]:
    return [
        word
        for before, word in pairwise(words)
        if word.endswith(_SOURCES) and not word.startswith("-") and before not in _WITH_VALUE
    ]
