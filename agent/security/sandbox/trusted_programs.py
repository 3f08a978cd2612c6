"""Programs that Kore itself starts outside a sandbox, such as bwrap, rg or docker.

A PATH may name folders that a command or a model can write to, such as the `.venv/bin` of a
project; what lies there is no helper.
"""

import os
import shutil
import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def find_trusted_program(
    name: str, workspaces: Iterable[Path] = (), path: str | None = None
) -> str | None:
    """Where the program lies: the first in `path` (mostly PATH) that `is_trusted`, or None."""
    search_path = os.environ.get("PATH", "") if path is None else path
    places = tuple(workspaces)
    for folder in search_path.split(os.pathsep):
        if os.path.isabs(folder):
            program = shutil.which(name, path=folder)
            if program is not None and is_trusted(program, places):
                return program
    return None


def is_trusted(program: str, workspaces: Iterable[Path] = ()) -> bool:
    """Whether only root and this user can have put the program there, and no command.

    It lies in no workspace, not in the current folder, and in no environment of a project; it and
    all folders above it belong to root or this user, and no other user may write there.
    """
    real = os.path.realpath(program)
    own = [*map(os.path.realpath, workspaces), *map(os.path.realpath, _current_folder())]
    if any(_is_below(path, place) for path in (program, real) for place in own if place != "/"):
        return False
    if any(_is_of_project(path) for path in (program, real)):
        return False
    parents = (str(parent) for parent in Path(program).parents)
    return is_closed_file(real) and all(map(_is_closed, parents))


def is_closed_file(path: str) -> bool:
    """Whether only root and this user can change the file, or put another one in its place."""
    return all(map(_is_closed, (path, *map(str, Path(path).parents))))


def _current_folder() -> tuple[str, ...]:
    try:
        return (os.getcwd(),)
    except FileNotFoundError:
        return ()


def _is_of_project(path: str) -> bool:
    above = Path(path).parent
    return (above.parent / "pyvenv.cfg").exists() or "node_modules" in above.parts


def _is_closed(path: str) -> bool:
    """Whether only root and this user can change or replace it."""
    try:
        info = os.stat(path)
    except OSError:
        return False
    if info.st_uid not in (0, os.geteuid()):
        return False
    if stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX:
        # In a folder such as /tmp users cannot replace the files of others.
        return True
    if info.st_mode & stat.S_IWOTH:
        return False
    return not info.st_mode & stat.S_IWGRP or _is_own_group(info.st_gid)


@cache
def _is_own_group(group: int) -> bool:
    """Whether only root and this user are in it: many systems give each user such a group."""
    import grp
    import pwd

    try:
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return False
    people = pwd.getpwall()
    members |= {one.pw_name for one in people if one.pw_gid == group}
    return members <= {one.pw_name for one in people if one.pw_uid in (0, os.geteuid())}


def _is_below(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")
