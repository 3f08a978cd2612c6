"""Extended attributes of files, read and written without following links.

Writing one takes write permission for the file, which the owner of a read-only file lacks. Such a
file is made writable for a moment, through a descriptor, so that its mode ends as it began.
https://man7.org/linux/man-pages/man7/xattr.7.html
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_SUPPORTED = hasattr(os, "setxattr")
_CREATE = getattr(os, "XATTR_CREATE", 0)
_OPENED = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
# Nothing is there, it has no such attribute, or no file there can have any.
_ABSENT = frozenset(
    {errno.ENODATA, errno.ENOENT, errno.ENOTDIR, errno.ENOTSUP, errno.ENAMETOOLONG, errno.ELOOP}
)

Place = str | os.PathLike[str] | int
"""A path, or the descriptor of an open file."""


def read_attribute(place: Place, name: str) -> bytes | None:
    """Return the attribute's value; empty for one that is there and cannot be read."""
    if not _SUPPORTED:
        return None
    try:
        return os.getxattr(place, name, follow_symlinks=isinstance(place, int))
    except OSError as exc:
        if exc.errno in _ABSENT:
            return None
        if exc.errno != errno.EACCES:
            return b""
    # Reading a value takes permission to read the file; listing the names does not.
    names = list_attributes(place)
    return b"" if names is None or name in names else None


def list_attributes(place: Place) -> Sequence[str] | None:
    """Return the names of the attributes; None where there are more than can be listed."""
    if not _SUPPORTED:
        return ()
    try:
        return os.listxattr(place, follow_symlinks=isinstance(place, int))
    except OSError as exc:
        # Behind a closed folder nothing can be read.
        return () if exc.errno in _ABSENT or exc.errno == errno.EACCES else None


def write_attribute(place: Place, name: str, value: bytes, *, new: bool = False) -> None:
    """Set the attribute. Raises `OSError`; `FileExistsError` where `new` and it is there."""
    if not _SUPPORTED:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    flags = _CREATE if new else 0
    try:
        os.setxattr(place, name, value, flags, follow_symlinks=isinstance(place, int))
    except PermissionError:
        with _writable(place) as opened:
            os.setxattr(opened, name, value, flags)


def remove_attribute(place: Place, name: str) -> bool:
    """Remove the attribute; False where it is not there, or stays."""
    if not _SUPPORTED:
        return False
    try:
        try:
            os.removexattr(place, name, follow_symlinks=isinstance(place, int))
        except PermissionError:
            if read_attribute(place, name) is None:
                return False
            with _writable(place) as opened:
                os.removexattr(opened, name)
    except OSError:
        return False
    return True


@contextmanager
def _writable(place: Place) -> Iterator[str]:
    """The path of the very file, which its owner may write to meanwhile. Raises `OSError`."""
    descriptor = os.dup(place) if isinstance(place, int) else os.open(place, _OPENED)
    try:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise PermissionError(errno.EPERM, "only files and folders have such attributes")
        opened = f"/proc/self/fd/{descriptor}"
        os.chmod(opened, stat.S_IMODE(mode) | stat.S_IWUSR)
        try:
            yield opened
        finally:
            os.chmod(opened, stat.S_IMODE(mode))
    finally:
        os.close(descriptor)
