"""Folders that contain a program, which a server in a sandbox can always read."""

import os
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from agent.security.files.private_places import private_place
from agent.security.files.safe_open import open_regular
from agent.security.sandbox.environment import PROGRAMS

# Entries at the top of a program's own folder.
_TOPS = ("package.json", "node_modules", "pyproject.toml", "pyvenv.cfg", "Cargo.toml", "go.mod")
_MAX_LINE_BYTES = 1_000


def folders_of_command(
    words: Sequence[str],
    closed: Sequence[Path],
    may_show: Callable[[Path], bool],
    shared: Sequence[Path] = (),
) -> tuple[Path, ...]:
    """Return the folders of a command.

    These are the folders of the program, of the interpreter if it is a script, and of each file
    that the command names by its full path, if `may_show` allows it. A named file directly in
    a `shared` folder, such as a script in the home folder, is included alone. `closed` as for
    `folders_of_program`. May block.
    """
    interpreter = interpreter_of(words[0]) if words else None
    folders: list[Path] = []
    for path in chain(map(Path, words), () if interpreter is None else (interpreter,)):
        path = path.expanduser()
        if path.is_absolute() and path.is_file() and may_show(path):
            folders += [path] if _is_alone(path, shared) else folders_of_program(path, closed)
    return tuple(dict.fromkeys(folders))


def folders_of_program(path: Path, closed: Sequence[Path]) -> list[Path]:
    """Return the folders of a program and of the file that it links to.

    These are the highest folder that looks like the program's own, and the libraries next to its
    `bin`, as for interpreters, but never a folder that contains a `closed` path. May block.
    """
    folders: list[Path] = []
    real = path.resolve()
    # A program in a virtual environment is a link to the outside.
    for program in (path, real):
        folder = _own_folder(
            program.parent.resolve() if program != path else program.parent, closed
        )
        # Every command sees these, some of them as links.
        if folder is not None and str(folder) not in PROGRAMS and folder not in folders:
            folders.append(folder)
    library = real.parent.parent / "lib"
    is_needed = real.parent.name == "bin" and library.is_dir()
    if is_needed and not any(library.is_relative_to(folder) for folder in folders):
        # Not the common parent: the parent of `~/.local/bin` contains more than programs.
        is_open = real.parent.parent not in closed and not _holds(library.resolve(), closed)
        folders += [library] if is_open else []
    return folders


def _is_alone(path: Path, shared: Sequence[Path]) -> bool:
    """Return whether a file is directly in a shared folder and can be shown without it."""
    is_shared = path.parent in shared and not path.is_symlink()
    return is_shared and private_place(path) is None


def interpreter_of(program: str) -> Path | None:
    """Return the interpreter in the first line of a script; None if `env` searches for it.

    May block.
    """
    try:
        with open_regular(program) as file:
            line = file.readline(_MAX_LINE_BYTES)
    except OSError:
        return None
    words = line.removeprefix(b"#!").split()
    if not line.startswith(b"#!") or not words or not words[0].startswith(b"/"):
        return None
    path = Path(os.fsdecode(words[0]))
    return None if path.name == "env" else path


def _holds(folder: Path, closed: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for path in closed)


def _own_folder(folder: Path, closed: Sequence[Path]) -> Path | None:
    candidates = [
        parent
        for parent in (folder, *folder.parents)
        if parent != Path("/") and not _holds(parent, closed)
    ]
    tops = [
        candidate for candidate in candidates if any((candidate / name).exists() for name in _TOPS)
    ]
    return tops[-1] if tops else next(iter(candidates), None)
