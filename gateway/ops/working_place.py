"""Folder that a person works in, and the workspace around it."""

import os
import pwd
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from agent.i18n import t
from agent.records import frozen
from agent.text.visible import escape_line
from gateway.config import Settings
from gateway.core.messages import MessageOptions
from gateway.core.session_folder import SessionFolder
from gateway.runtime.paths import DataDir
from gateway.turns.agents.profiles import origin_of


@frozen
class WorkingPlace:
    """Folder that a person works in, and the workspace around it.

    `untrusted_repository` is the root of the repository that contains `folder`, if the workspace is
    only `folder` because the person has not trusted the repository.
    """

    workspace: Path
    folder: Path
    untrusted_repository: Path | None = None

    @property
    def remark(self) -> str:
        """Warning about a workspace without its repository, or ''."""
        if self.untrusted_repository is None:
            return ""
        root = escape_line(str(self.untrusted_repository))
        return t(
            "I work in this folder alone, without git: its repository {root} isn't trusted. "
            "To work in the whole repository: {command}",
            root=root,
            command=f"kore trust {shlex.quote(root)}",
        )

    def in_checkout(self, root: Path) -> "WorkingPlace":
        """Return the same place in another checkout of the repository, or its root."""
        folder = root / self.folder.relative_to(self.workspace)
        return WorkingPlace(root, folder if folder.is_dir() else root)

    @property
    def session_folder(self) -> SessionFolder:
        start_folder = None if self.folder == self.workspace else str(self.folder)
        return SessionFolder(str(self.workspace), start_folder)

    def apply(self, options: MessageOptions) -> MessageOptions:
        return options.in_folder(self.session_folder)


def chosen_place(settings: Settings, home: DataDir, folder: Path) -> WorkingPlace:
    """Return a folder (a real path) that the person chose, without asking about trust."""
    place = find_place(settings, home, folder, is_chosen=True)
    assert place is not None, "a chosen folder is a place"
    return limit_to_trust(place, settings, home, is_chosen=True)


def limit_to_trust(
    place: WorkingPlace, settings: Settings, home: DataDir, *, is_chosen: bool
) -> WorkingPlace:
    """Return the place without the repository if that would exceed the person's trust.

    A person who trusted the folder, or chose it explicitly, did not mean its parent folders.
    """
    origin = origin_of(settings, home)
    if place.workspace == place.folder or origin.is_own(place.workspace):
        return place
    if is_chosen or origin.is_own(place.folder):
        return WorkingPlace(place.folder, place.folder, place.workspace)
    return place


def find_place(
    settings: Settings, home: DataDir, folder: Path, *, is_chosen: bool
) -> WorkingPlace | None:
    """Return the folder (a real path) with the repository around it as workspace.

    Returns None without a project: in a home folder, in `/`, in Kore's own folder, in the
    workspace, and in any parent of these, unless the person chose the folder.
    """
    own_folders = (home.root.resolve(), settings.agent.workspace.resolve())
    outer_folders = (*_home_folders(folder), *own_folders)
    root = None
    if not any(folder.is_relative_to(own_folder) for own_folder in own_folders):
        root = _repository_around(folder, outer_folders)
    elif not is_chosen:
        return None
    if root is not None:
        return WorkingPlace(root, folder)
    is_project = not _contains_any(folder, outer_folders) and not _is_world_writable(folder)
    return WorkingPlace(folder, folder) if is_chosen or is_project else None


def _home_folders(folder: Path) -> Iterator[Path]:
    """Yield $HOME and the home folders of this user and of the folder's owner."""
    yield Path.home().resolve()
    for user in {os.geteuid(), folder.stat().st_uid}:
        # Containers may use a user id without an account.
        with suppress(KeyError):
            home = Path(pwd.getpwuid(user).pw_dir)
            if home.is_absolute():
                yield home.resolve()


def _repository_around(folder: Path, outer_folders: Sequence[Path]) -> Path | None:
    """Return the root of the repository around the folder, or None.

    A repository around a home folder or Kore's folder, such as a dotfiles repository, does not
    count, and neither does one that another user could have put around the folder.
    """
    for parent in (folder, *folder.parents):
        if _contains_any(parent, outer_folders):
            return None
        if (parent / ".git").exists():
            return parent if parent == folder or _is_from_person(parent, folder) else None
    return None


def _is_from_person(root: Path, folder: Path) -> bool:
    """Return whether only this user, or as root the owner of the folder, made the repository."""
    owners = {os.geteuid()}
    if os.geteuid() == 0:
        owners.add(folder.stat().st_uid)
    entries = (root.lstat(), (root / ".git").lstat())
    return not _is_world_writable(root) and all(entry.st_uid in owners for entry in entries)


def _contains_any(folder: Path, places: Sequence[Path]) -> bool:
    return any(place.is_relative_to(folder) for place in places)


def _is_world_writable(folder: Path) -> bool:
    """Return whether the folder is world-writable, such as /tmp."""
    return bool(folder.stat().st_mode & stat.S_IWOTH)
