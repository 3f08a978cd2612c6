"""The folders that hold a server's program: it reads them, whatever else its sandbox hides."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from agent.mcp.settings import McpServerSettings
from agent.tools.shell.program_folders import folders_of_command, interpreter_of


def program_folders(
    server: McpServerSettings, home: Path, closed: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """The folders of the program, of a script's interpreter, and of the files that the server's
    arguments name by their full paths: of each the highest one that looks like a program's, but
    never one that holds `home` or what is `closed`. Of a stranger's server its program's folder,
    and what was given to it. May block."""
    own = () if server.reach is None else (server.reach.program,)
    program = shutil.which(server.command or "") or ""
    is_named = "/" in (server.command or "")
    # A script of a stranger may name any program, and with it any folder.
    from_path = () if is_named else (Path(program), interpreter_of(program))

    def may_show(path: Path) -> bool:
        return server.reach is None or path in from_path or server.reach.shows(path)

    folders = folders_of_command((program, *server.args), [home, *closed], may_show)
    return tuple(dict.fromkeys((*own, *folders)))
