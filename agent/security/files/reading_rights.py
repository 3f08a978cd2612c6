"""Rights of another user for files that Kore opens as root."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.records import frozen
from agent.security.files.safe_open import LISTED, open_folder_beneath, open_subfolder

_NO_ACL = (errno.ENOTSUP, errno.ENODATA)


@frozen
class ReadingRights:
    """Rights below `place` of an unprivileged user to whom the files of `user_id` belong.

    The user's only group has the same ID. Folders above `place` do not count, because the user
    reaches it through a mount.
    """

    place: Path
    user_id: int

    @contextmanager
    def open_folder(self, path: Path) -> Iterator[int]:
        """Yield a descriptor of a folder that the user can access, opened without following links.

        Raises OSError, and PermissionError if the user has no access.
        """
        if not path.is_relative_to(self.place):
            # The place is a single file.
            with open_folder_beneath(path) as folder:
                yield folder
            return
        with open_folder_beneath(self.place, flags=LISTED) as top:
            folder = os.dup(top)
            try:
                self._check(folder, stat.S_IXOTH)
                for name in path.relative_to(self.place).parts:
                    outer, folder = folder, open_subfolder(name, folder, flags=LISTED)
                    os.close(outer)
                    self._check(folder, stat.S_IXOTH)
                yield folder
            finally:
                os.close(folder)

    def check_file(self, descriptor: int) -> None:
        """Raise PermissionError for an open file that the user cannot read."""
        self._check(descriptor, stat.S_IROTH)

    def check_listing(self, descriptor: int) -> None:
        """Raise PermissionError for an open folder that the user cannot list."""
        self._check(descriptor, stat.S_IROTH | stat.S_IXOTH)

    def can_list(self, path: Path) -> bool:
        """Return whether the user can list a folder, given by its real path. Blocks."""
        try:
            with self.open_folder(path) as folder:
                self.check_listing(folder)
        except OSError:
            return False
        return True

    def _check(self, descriptor: int, needed: int) -> None:
        info = os.fstat(descriptor)
        if info.st_uid == self.user_id:
            granted = info.st_mode >> 6
        elif _has_acl(descriptor):
            # An access control list may deny what the mode seems to allow.
            granted = 0
        elif info.st_gid == self.user_id:
            granted = info.st_mode >> 3
        else:
            granted = info.st_mode
        if needed & ~granted:
            text = "commands run as another user, who has no right to read it"
            raise PermissionError(errno.EACCES, text)


@contextmanager
def open_listed(path: Path, rights: ReadingRights | None) -> Iterator[int]:
    """Yield a descriptor of a folder to list; with `rights`, only if their user can list it.

    Raises OSError.
    """
    if rights is None:
        with open_folder_beneath(path, flags=LISTED) as folder:
            yield folder
        return
    with rights.open_folder(path) as folder:
        rights.check_listing(folder)
        yield folder


def open_listed_subfolder(name: str, folder: int, rights: ReadingRights | None) -> int:
    """Like `open_listed`, for the folder `name` in the open `folder`; return a descriptor."""
    descriptor = open_subfolder(name, folder, flags=LISTED)
    try:
        if rights is not None:
            rights.check_listing(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _has_acl(descriptor: int) -> bool:
    """Return whether a file has an access control list, or may have one."""
    try:
        names = os.listxattr(descriptor)
    except OSError as exc:
        return exc.errno not in _NO_ACL
    return any("acl" in name and name != "system.posix_acl_default" for name in names)
