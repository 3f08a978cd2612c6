"""The folders that hold a server's program: it reads them, whatever else its sandbox hides."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from agent.mcp.settings import McpServerSettings
from agent.tools.shell.program_folders import folders_of_program


def program_folders(
    server: McpServerSettings, home: Path, closed: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """The folders of the program and of the files that the server's arguments name by their full
    paths: of each the highest one that looks like a program's, but never one that holds `home` or
    what is `closed`. Of a stranger's server its program's folder, and what was given to it. May
    block."""
    closed = [home, *closed]
    folders = [] if server.reach is None else [server.reach.program]
    program = shutil.which(server.command or "")
    for word in (program or "", *server.args):
        path = Path(word).expanduser()
        if not path.is_absolute() or not path.is_file():
            continue
        is_named = word != program or "/" in (server.command or "")
        if is_named and server.reach is not None and not server.reach.shows(path):
            continue
        folders += [each for each in folders_of_program(path, closed) if each not in folders]
    return tuple(folders)
