"""Resolution of configured folders, without links that others can change."""

import os
from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t

# The kernel's limit.
_MAX_LINKS = 40


def real_folder(where: str, name: str) -> Path:
    """Return the real path of the folder that the key `where` names.

    Raises `ConfigError` for a path with a link that a command or another user could have made.
    """
    path = Path(os.path.abspath(Path(name).expanduser()))
    folder = Path(os.path.realpath(path))
    if _has_changeable_link(path):
        raise ConfigError(
            t(
                "{where}: {path} leads through a link to {folder}; name that folder itself, "
                "if it is the right one",
                where=where,
                path=path,
                folder=folder,
            )
        )
    return folder


def _has_changeable_link(path: Path, links: int = 0) -> bool:
    """Return whether a path, followed as the kernel does, has a changeable link."""
    place = Path(path.anchor)
    for name in path.parts[1:]:
        link = place / name
        if not os.path.islink(link):
            place = link
            continue
        target = Path(os.path.normpath(place / os.readlink(link)))
        if links >= _MAX_LINKS or _is_changeable(place):
            return True
        if _has_changeable_link(target, links + 1):
            return True
        place = Path(os.path.realpath(target))
    return False


def _is_changeable(folder: Path) -> bool:
    """Return whether anyone but root, or this process, can create links in a folder."""
    info = folder.stat()
    return info.st_uid != 0 or bool(info.st_mode & 0o022) or os.access(folder, os.W_OK)
