"""The folders that hold a server's program: it reads them, whatever else its sandbox hides."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from agent.mcp.settings import McpServerSettings

# What stands at the top of a program's own folder.
_TOPS = ("package.json", "node_modules", "pyproject.toml", "pyvenv.cfg", "Cargo.toml", "go.mod")


def program_folders(
    server: McpServerSettings, home: Path, closed: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """The folders of the program and of the files that the server's arguments name by their full
    paths: of each the highest one that looks like a program's, but never one that holds `home` or
    what is `closed`. Of a stranger's server its program's folder, and what was given to it. May
    block."""
    closed = [home, *closed]
    folders: list[Path] = [] if server.reach is None else [server.reach.program]
    program = shutil.which(server.command or "")
    for word in (program or "", *server.args):
        path = Path(word).expanduser()
        if not path.is_absolute() or not path.is_file():
            continue
        is_named = word != program or "/" in (server.command or "")
        if is_named and server.reach is not None and not server.reach.shows(path):
            continue
        # A program of a virtual environment is a link out of it.
        for each in (path, path.resolve()):
            folder = _program_folder(each.parent.resolve() if each != path else each.parent, closed)
            if folder is not None and folder not in folders:
                folders.append(folder)
    return tuple(folders)


def _program_folder(folder: Path, closed: Iterable[Path]) -> Path | None:
    candidates = [
        each
        for each in (folder, *folder.parents)
        if each != Path("/") and not any(path.is_relative_to(each) for path in closed)
    ]
    tops = [each for each in candidates if any((each / name).exists() for name in _TOPS)]
    return tops[-1] if tops else next(iter(candidates), None)
