"""Snapshot and restoration of a single path, atomic and never through a link."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from agent.errors import ToolError
from agent.security.files import file_io
from agent.security.files.safe_open import THROUGH, open_folder_beneath, open_subfolder
from agent.security.taint.file_marks import MarkLevel, is_marked
from agent.security.taint.marked_write import write_marked
from agent.security.taint.taint import NOTHING
from agent.undo.blob_store import BlobStore
from agent.undo.records import FileState

# The largest file that tools open is also the largest that can be restored.
MAX_BYTES = 20_000_000


def snapshot_path(
    path: Path, blobs: BlobStore, *, keep: bool = False
) -> tuple[FileState | None, bool]:
    """Return the state of `path`, and whether its content is in the store.

    With `keep`, the content is stored. Raises `ToolError` for a path through a link, and for
    anything but files and folders.
    """
    with file_io.explain_errors(path):
        try:
            with open_folder_beneath(path.parent) as folder:
                info = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISLNK(info.st_mode):
                    return FileState("link", os.readlink(path.name, dir_fd=folder)), True
        except FileNotFoundError:
            return None, True
    mode = info.st_mode & 0o777
    if stat.S_ISDIR(info.st_mode):
        return FileState("folder", mode=mode), True
    if not stat.S_ISREG(info.st_mode):
        raise ToolError(f"{path} is not an ordinary file.")
    if info.st_size > MAX_BYTES:
        return FileState("file", mode=mode), False
    data = read(path)
    if data is None:
        return FileState("file", mode=mode), False
    name, is_stored = blobs.name(data), False
    if keep:
        # A full disk must not block the work; only the undo of this change is lost.
        with suppress(OSError):
            name, is_stored = blobs.put(data)
    return FileState("file", name, mode, is_marked(path)), is_stored


def read(path: Path) -> bytes | None:
    """Return the content of a file, or None when it is unreadable."""
    try:
        return file_io.read(path, MAX_BYTES)
    except ToolError:
        return None


def restore(
    path: Path, now: FileState | None, target: FileState | None, blobs: BlobStore, root: Path
) -> None:
    """Change a path from the state `now` to `target`: both of the same kind, or one of them None.

    Raises `ToolError` with nothing changed. A folder that is not empty stays.
    """
    if target is None:
        assert now is not None, "nothing becomes nothing"
        _remove(path, now)
    elif target.kind == "file":
        _write(path, now, target, blobs, root)
    else:
        with file_io.explain_errors(path), open_folder_beneath(path.parent, create=True) as folder:
            if target.kind == "folder":
                _make_folder(path.name, folder, target.mode)
            else:
                _make_link(path.name, folder, target.value)


def _write(
    path: Path, now: FileState | None, target: FileState, blobs: BlobStore, root: Path
) -> None:
    data = blobs.get(target.value)
    if data is None:
        raise ToolError(f"The earlier content of {path} is no longer stored.")
    was_marked = target.is_marked or (now is not None and now.is_marked)
    # The level of its mark is not recorded, so use the stricter level if there is no mark on disk.
    level: MarkLevel = "unseen" if was_marked and not is_marked(path) else "none"
    write_marked(path, data, root, NOTHING, mode=target.mode, level=level)


def _remove(path: Path, now: FileState) -> None:
    with file_io.explain_errors(path), open_folder_beneath(path.parent) as folder:
        if now.kind == "folder":
            os.rmdir(path.name, dir_fd=folder)
        else:
            os.unlink(path.name, dir_fd=folder)


def _make_link(name: str, folder: int, target: str) -> None:
    new = f".{secrets.token_hex(8)}.kore-new"
    os.symlink(target, new, dir_fd=folder)
    try:
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(new, dir_fd=folder)
        raise


def _make_folder(name: str, folder: int, mode: int | None) -> None:
    fd = open_subfolder(name, folder, create=True, flags=THROUGH & ~getattr(os, "O_PATH", 0))
    try:
        if mode is not None:
            os.fchmod(fd, mode & 0o777)
    finally:
        os.close(fd)
