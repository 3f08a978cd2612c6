"""The folders that hold a program: a server reads them, whatever else its sandbox hides."""

from collections.abc import Callable, Iterable
from pathlib import Path

# What stands at the top of a program's own folder.
_TOPS = ("package.json", "node_modules", "pyproject.toml", "pyvenv.cfg", "Cargo.toml", "go.mod")


def folders_of_command(
    words: Iterable[str], closed: Iterable[Path], may_show: Callable[[Path], bool]
) -> tuple[Path, ...]:
    """Of the program and of each file that the words of a command name by their full paths, where
    `may_show` says so; `closed` as for `folders_of_program`. May block."""
    closed = list(closed)
    folders: list[Path] = []
    for word in words:
        path = Path(word).expanduser()
        if path.is_absolute() and path.is_file() and may_show(path):
            folders += folders_of_program(path, closed)
    return tuple(dict.fromkeys(folders))


def folders_of_program(path: Path, closed: Iterable[Path]) -> list[Path]:
    """Of a program and of the file that it is a link to: the highest folder that looks like the
    program's own, but never one that holds what is `closed`. May block."""
    folders: list[Path] = []
    # A program of a virtual environment is a link out of it.
    for each in (path, path.resolve()):
        folder = _own_folder(each.parent.resolve() if each != path else each.parent, closed)
        if folder is not None and folder not in folders:
            folders.append(folder)
    return folders


def _own_folder(folder: Path, closed: Iterable[Path]) -> Path | None:
    candidates = [
        each
        for each in (folder, *folder.parents)
        if each != Path("/") and not any(path.is_relative_to(each) for path in closed)
    ]
    tops = [each for each in candidates if any((each / name).exists() for name in _TOPS)]
    return tops[-1] if tops else next(iter(candidates), None)
