"""Guards of a command for the folders that it may change."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from agent.errors import ToolError
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity, is_in_place
from agent.security.files.quarantine import CreatedFiles
from agent.tools.repositories.history import GitHistoryGuard, own_stores
from agent.tools.repositories.store_files import HistoryCache
from agent.tools.shell.git_stores import GitStoreGuard
from agent.tools.shell.mount_restrictions import TASK_FILES

# Return the git stores in a folder.
FindStores = Callable[[], Collection[Path]]


@frozen
class ChangedFolder:
    """Folder that a command may change; it is not checked if its `identity` is None."""

    path: Path
    identity: FolderIdentity | None = None

    @property
    def is_in_place(self) -> bool:
        """True if no other folder has taken its place."""
        return is_in_place(self.identity)


class ChangeGuards:
    """Guards against new files that influence later turns or git, and against a lost history.

    The first folder is the workspace; paths are relative to it, or absolute. Call `begin` first,
    and `restore` and `set_aside` at the end.
    """

    def __init__(self, folders: Sequence[ChangedFolder], cache: HistoryCache) -> None:
        self._folders = folders
        self._created = [CreatedFiles(folder.path, TASK_FILES) for folder in folders]
        self._stores = [GitStoreGuard(folder.path) for folder in folders]
        self._histories = [GitHistoryGuard(folders[0].path, cache) for _ in folders]

    @property
    def unprotected(self) -> list[str]:
        """Repositories whose history could not be preserved or restored."""
        return [name for history in self._histories for name in history.unprotected]

    def begin(self) -> None:
        """Start recording. Raises `ToolError` for a folder that cannot be listed."""
        for number, created in enumerate(self._created):
            try:
                created.begin()
            except ToolError:
                for begun in self._created[:number]:
                    begun.end(is_exposed=False)
                raise

    def record_stores(self, stores: Mapping[Path, Sequence[Path]]) -> None:
        """Record the existing stores, by folder. May block."""
        for folder, guard in zip(self._folders, self._stores, strict=True):
            guard.begin(stores[folder.path])

    def hold_history(self, find: Mapping[Path, FindStores], deleted: Collection[Path] = ()) -> None:
        """Preserve the histories in each folder, except those to be `deleted`. May block."""
        for folder, guard in zip(self._folders, self._histories, strict=True):
            guard.begin(own_stores(folder.path, find[folder.path]), deleted)

    def restore(self, *, is_restored: bool = True) -> list[str]:
        """Restore files that git did not remove; return the restored paths.

        May block. Nothing is restored in a folder that was replaced.
        """
        return [
            place
            for folder, guard in zip(self._folders, self._histories, strict=True)
            for place in guard.end(is_restored=is_restored and folder.is_in_place)
        ]

    def set_aside(self, *, is_exposed: bool, is_confined: bool) -> list[tuple[str, str]]:
        """Rename new files that influence later turns and, in a sandbox, files that git would obey.

        Nothing is renamed if the command cannot know strangers' words (`is_exposed`), or in a
        folder that was replaced. Returns the old and new names. May block.
        """
        moved: list[tuple[str, str]] = []
        for folder, created, stores in zip(self._folders, self._created, self._stores, strict=True):
            is_renamed = is_exposed and folder.is_in_place
            names = [*created.end(is_exposed=is_renamed)]
            if is_renamed and is_confined:
                names += stores.end()
            if folder is not self._folders[0]:
                names = [(str(folder.path / old), new) for old, new in names]
            moved += names
        return moved
