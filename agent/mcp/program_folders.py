"""The folders that hold a server's program: it reads them, whatever else its sandbox hides."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from agent.mcp.settings import McpServerSettings
from agent.tools.shell.program_folders import folders_of_command


def program_folders(
    server: McpServerSettings, home: Path, closed: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """The folders of the program and of the files that the server's arguments name by their full
    paths: of each the highest one that looks like a program's, but never one that holds `home` or
    what is `closed`. Of a stranger's server its program's folder, and what was given to it. May
    block."""
    own = () if server.reach is None else (server.reach.program,)
    program = shutil.which(server.command or "") or ""
    is_named = "/" in (server.command or "")

    def may_show(path: Path) -> bool:
        is_from_path = str(path) == program and not is_named
        return server.reach is None or is_from_path or server.reach.shows(path)

    folders = folders_of_command((program, *server.args), [home, *closed], may_show)
    return tuple(dict.fromkeys((*own, *folders)))
