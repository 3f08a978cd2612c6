"""Atomic extraction of an archive into a new folder."""

import lzma
import os
import secrets
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tarfile import TarError
from typing import BinaryIO
from zipfile import BadZipFile

from agent.errors import ArchiveRefused
from agent.security.archive.entry import ArchiveEntry, ArchiveLimits, NameValidator
from agent.security.archive.tar import TarStream, tar_entries
from agent.security.archive.zip import MAGIC, zip_entries
from agent.security.files.folder_tree import remove_tree
from agent.security.files.paths import quote_path
from agent.security.files.safe_open import open_folder_beneath, open_subfolder

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Headers, padding and extended headers of a tar, per entry.
_TAR_BYTES_PER_ENTRY = 4096


def extract(archive: Path, target: Path, caps: ArchiveLimits | None = None) -> tuple[str, ...]:
    """Unpack a zip or a tar (plain, gzip, bzip2, xz) into `target`, which must not exist yet.

    Creates only files and folders below `target`, accessible only by this user, and returns the
    names of the files. Leaves nothing behind when it raises ArchiveRefused. Blocks, so call it in a
    thread. `target` is a real path without links.
    """
    with _explain_errors(archive), archive.open("rb") as file:
        return _Extraction(file, caps or ArchiveLimits()).into(target)


class _Extraction:
    """Extraction of one archive."""

    def __init__(self, file: BinaryIO, caps: ArchiveLimits) -> None:
        self._file = file
        self._caps = caps
        self._packed_bytes = os.fstat(file.fileno()).st_size
        self._remaining_bytes = caps.allowed_bytes(self._packed_bytes)
        self._names = NameValidator(caps)

    def into(self, target: Path) -> tuple[str, ...]:
        """Unpack into a temporary folder next to the target, then rename it."""
        name = f".{secrets.token_hex(8)}.kore-new"
        with open_folder_beneath(target.parent, create=True) as above:
            if _is_there(target.name, above):
                raise ArchiveRefused(
                    f"{target} exists already; archives are unpacked into a new one."
                )
            os.mkdir(name, 0o700, dir_fd=above)
            try:
                folder = open_subfolder(name, above)
                try:
                    files = tuple(self._unpack(folder))
                finally:
                    os.close(folder)
                os.rename(name, target.name, src_dir_fd=above, dst_dir_fd=above)
            except BaseException:
                remove_tree(name, above)
                raise
        return files

    def _unpack(self, folder: int) -> Iterator[str]:
        for entry in self._entries():
            parts = self._names.take(entry)
            if entry.is_folder:
                os.close(_descend(folder, parts))
            elif not parts:
                raise ArchiveRefused(
                    f"The archive contains a file without a name: {quote_path(entry.name)}."
                )
            else:
                self._write(entry, parts, folder)
                yield "/".join(parts)

    def _entries(self) -> Iterator[ArchiveEntry]:
        start = self._file.read(4)
        self._file.seek(0)
        if start in MAGIC:
            return zip_entries(self._file, self._packed_bytes, self._caps)
        room = self._remaining_bytes + self._caps.entries * _TAR_BYTES_PER_ENTRY
        return tar_entries(TarStream(self._file, room))

    def _write(self, entry: ArchiveEntry, parts: tuple[str, ...], folder: int) -> None:
        inner = _descend(folder, parts[:-1])
        try:
            mode = 0o700 if entry.is_executable else 0o600
            fd = os.open(parts[-1], _NEW, mode, dir_fd=inner)
        finally:
            os.close(inner)
        room = self._caps.file_bytes
        with open(fd, "wb") as file:
            for chunk in entry.chunks:
                room -= len(chunk)
                self._remaining_bytes -= len(chunk)
                if room < 0 or self._remaining_bytes < 0:
                    raise ArchiveRefused(
                        "The archive exceeds the size limit for unpacking: "
                        f"{quote_path(entry.name)}."
                    )
                file.write(chunk)


def _descend(folder: int, parts: tuple[str, ...]) -> int:
    """Return a descriptor of the folder `parts` below an open folder; create missing folders."""
    fd = open_subfolder(".", folder)
    for part in parts:
        try:
            inner = open_subfolder(part, fd, create=True)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _explain_errors(archive: Path) -> Iterator[None]:
    """Convert library errors about broken archives to `ArchiveRefused`."""
    format_errors = (
        lzma.LZMAError,
        zlib.error,
        TarError,
        BadZipFile,
        EOFError,
        ValueError,
        struct.error,
    )
    try:
        yield
    except (*format_errors, NotImplementedError, OverflowError, OSError) as exc:
        text = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
        raise ArchiveRefused(
            f"{archive.name} cannot be unpacked: {' '.join(text.split())[:200].rstrip('.')}."
        ) from exc
