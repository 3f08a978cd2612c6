"""Search for programs that Kore itself starts outside a sandbox, such as bwrap, rg or docker.

PATH may contain folders that commands or models can write to, such as the `.venv/bin` of a project.
Programs there are never used.
"""

import grp
import os
import pwd
import shutil
import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def find_trusted_program(
    name: str, workspaces: Iterable[Path] = (), path: str | None = None
) -> str | None:
    """Return the first program in `path` (default: PATH) that `is_trusted`, or None."""
    search_path = os.environ.get("PATH", "") if path is None else path
    untrusted_folders = tuple(workspaces)
    for folder in search_path.split(os.pathsep):
        if os.path.isabs(folder):
            program = shutil.which(name, path=folder)
            if program is not None and is_trusted(program, untrusted_folders):
                return program
    return None


def is_trusted(program: str, workspaces: Iterable[Path] = ()) -> bool:
    """Return whether only root or this user, but no command, can have installed the program.

    It must be outside of all workspaces, the current folder and project environments. The program
    and all folders above it must belong to root or this user and not be writable by other users.
    """
    real = os.path.realpath(program)
    own = [*map(os.path.realpath, workspaces), *map(os.path.realpath, _current_folder())]
    if any(_is_below(path, place) for path in (program, real) for place in own if place != "/"):
        return False
    if any(_is_in_project_environment(path) for path in (program, real)):
        return False
    parents = (str(parent) for parent in Path(program).parents)
    return is_closed_file(real) and all(map(_is_closed, parents))


def is_closed_file(path: str) -> bool:
    """Return whether only root and this user can change or replace the file."""
    return all(map(_is_closed, (path, *map(str, Path(path).parents))))


def _current_folder() -> tuple[str, ...]:
    try:
        return (os.getcwd(),)
    except FileNotFoundError:
        return ()


def _is_in_project_environment(path: str) -> bool:
    above = Path(path).parent
    return (above.parent / "pyvenv.cfg").exists() or "node_modules" in above.parts


def _is_closed(path: str) -> bool:
    """Return whether only root and this user can change or replace the path."""
    try:
        info = os.stat(path)
    except OSError:
        return False
    if info.st_uid not in (0, os.geteuid()):
        return False
    if stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX:
        # In a sticky folder such as /tmp users cannot replace the files of others.
        return True
    if info.st_mode & stat.S_IWOTH:
        return False
    return not info.st_mode & stat.S_IWGRP or _is_own_group(info.st_gid)


@cache
def _is_own_group(group: int) -> bool:
    """Return whether the group has no other members: many systems give each user a group."""
    try:
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return False
    people = pwd.getpwall()
    members |= {person.pw_name for person in people if person.pw_gid == group}
    return members <= {person.pw_name for person in people if person.pw_uid in (0, os.geteuid())}


def _is_below(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")
