"""Object store in a folder that all machines mount."""

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from agent.security.files.safe_open import LISTED, open_folder_beneath
from gateway.store.errors import catalogue_text
from gateway.store.files.port import (
    AREAS,
    UNREACHABLE,
    FileStoreUnavailable,
    StoredObject,
    is_object_name,
    missing_error,
)
from gateway.store.files.sealed_stream import PIECE_BYTES

_UNFINISHED = ".unfinished-"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a special file, such as a FIFO, must not block.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Depth of folders in an area, as in names of objects.
_DEPTH = 4


class FolderObjects:
    """Implements `ObjectStore` in a shared folder.

    Links below the folder are not followed, and only ordinary files count.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root: Path | None = None

    @property
    def place(self) -> str:
        return str(self._folder)

    def write(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        folder, file_name = self._split(name)
        new = f"{_UNFINISHED}{secrets.token_hex(8)}"
        with self._open_made(folder) as fd:
            with self._explain_errors():
                new_fd = os.open(new, _NEW, 0o600, dir_fd=fd)
            try:
                with open(new_fd, "wb") as file:
                    for piece in pieces:
                        with self._explain_errors():
                            file.write(piece)
                    with self._explain_errors():
                        file.flush()
                        os.fsync(file.fileno())
                with self._explain_errors():
                    os.rename(new, file_name, src_dir_fd=fd, dst_dir_fd=fd)
                    os.fsync(fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(new, dir_fd=fd)
                raise

    @contextmanager
    def read(self, name: str) -> Iterator[Iterator[bytes]]:
        folder, file_name = self._split(name)
        try:
            with self._explain_errors(), open_folder_beneath(folder) as fd:
                descriptor = _open_file(file_name, fd)
        except FileNotFoundError:
            raise missing_error(self.place) from None
        try:
            yield self._pieces(descriptor)
        finally:
            os.close(descriptor)

    def find(self, name: str) -> StoredObject | None:
        folder, file_name = self._split(name)
        try:
            with self._explain_errors(), open_folder_beneath(folder) as fd:
                info = os.stat(file_name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(info.st_mode):
            return None
        return StoredObject(name, info.st_size, info.st_mtime)

    def delete(self, name: str) -> None:
        folder, file_name = self._split(name)
        with (
            suppress(FileNotFoundError),
            self._explain_errors(),
            open_folder_beneath(folder) as fd,
        ):
            os.unlink(file_name, dir_fd=fd)

    def list(self, area: str) -> Iterator[StoredObject]:
        for path, info in self._walk(area):
            parts = path.split("/")
            name = "/".join([*parts[:-2], parts[-2] + parts[-1]])
            if is_object_name(name):
                yield StoredObject(name, info.st_size, info.st_mtime)

    def discard_unfinished(self, before: float) -> None:
        for area in AREAS:
            for path, info in self._walk(area):
                folder, _, name = path.rpartition("/")
                if name.startswith(_UNFINISHED) and info.st_mtime < before:
                    with (
                        suppress(FileNotFoundError),
                        self._explain_errors(),
                        open_folder_beneath(self._open_root() / folder) as fd,
                    ):
                        os.unlink(name, dir_fd=fd)

    @contextmanager
    def _open_made(self, folder: Path) -> Iterator[int]:
        """Open the folder of an object; create missing folders for the owner only."""
        root = self._open_root()
        with ExitStack() as stack:
            with self._explain_errors():
                try:
                    fd = stack.enter_context(open_folder_beneath(folder, flags=LISTED))
                except FileNotFoundError:
                    above = root
                    for part in folder.relative_to(root).parts:
                        with open_folder_beneath(above) as parent, suppress(FileExistsError):
                            os.mkdir(part, 0o700, dir_fd=parent)
                        above /= part
                    fd = stack.enter_context(open_folder_beneath(folder, flags=LISTED))
            yield fd

    def _pieces(self, fd: int) -> Iterator[bytes]:
        while True:
            with self._explain_errors():
                piece = os.read(fd, PIECE_BYTES)
            if not piece:
                return
            yield piece

    def _walk(self, area: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the ordinary files below an area, by their paths in the folder."""
        folders = [area]
        while folders:
            path = folders.pop()
            members: list[tuple[str, os.stat_result]] = []
            with (
                suppress(FileNotFoundError),
                self._explain_errors(),
                open_folder_beneath(self._open_root() / path, flags=LISTED) as fd,
                os.scandir(fd) as entries,
            ):
                for entry in entries:
                    with suppress(FileNotFoundError):
                        members.append((entry.name, entry.stat(follow_symlinks=False)))
            for name, info in members:
                if stat.S_ISREG(info.st_mode):
                    yield f"{path}/{name}", info
                elif stat.S_ISDIR(info.st_mode) and path.count("/") < _DEPTH:
                    folders.append(f"{path}/{name}")

    def _split(self, name: str) -> tuple[Path, str]:
        """Return the folder and the file name of an object."""
        if not is_object_name(name):
            raise ValueError(f"not the name of an object: {name[:200]!r}")
        area, _, digest = name.rpartition("/")
        return self._open_root() / area / digest[:2], digest[2:]

    def _open_root(self) -> Path:
        """Return the resolved root folder, because the owner may have configured a link."""
        if self._root is None:
            with self._explain_errors(is_root=True):
                self._root = self._folder.resolve(strict=True)
        if not self._root.is_dir():
            raise _away(self.place, os.strerror(errno.ENOENT))
        return self._root

    @contextmanager
    def _explain_errors(self, *, is_root: bool = False) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as exc:
            if is_root:
                raise _away(self.place, os.strerror(errno.ENOENT)) from exc
            raise
        except OSError as exc:
            raise _away(self.place, exc.strerror or type(exc).__name__) from exc


def _away(place: str, reason: str) -> FileStoreUnavailable:
    return FileStoreUnavailable(
        UNREACHABLE,
        hint=catalogue_text(
            "Check that store.files is a mounted folder that Kore's user may write to."
        ),
        place=place,
        reason=reason,
    )


def _open_file(name: str, folder: int) -> int:
    """Open an ordinary file; raises `FileNotFoundError` also for a link, a folder or a socket."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENXIO):
            raise FileNotFoundError(name) from None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise FileNotFoundError(name)
