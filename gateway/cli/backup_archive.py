"""Archive of a backup: checks and unpacking into a folder."""

import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from zipfile import ZipFile, ZipInfo

from agent.errors import KoreError
from agent.i18n import t
from agent.security.files.folder_tree import FolderCursor, new_file
from agent.security.files.safe_open import open_folder_beneath
from agent.security.taint.file_marks import MarkLevel
from gateway.cli.output import size
from gateway.ops.backup_marks import read_marks

DATABASE, WORKSPACE, CHANNELS = "kore.db", "workspace", "channels"

# Parts of a full backup besides the database and the workspace.
BESIDE = ("config.json", "secrets.json", "trust.json")

# Enough for about a million files.
_DIRECTORY_BYTES = 100_000_000

# Maximum size of the end of a zip file: its record, a comment of at most 65,535 bytes, and the
# records of ZIP64.
_TAIL_BYTES = 66_000

# Size limit of configuration and secrets, which are read into memory.
_BESIDE_BYTES = 10_000_000

# Each file needs at least one disk block.
_BLOCK_BYTES = 4096

_SHARE = 0.9


def unpack_backup(file: Path, folder: Path) -> Mapping[str, MarkLevel] | None:
    """Unpack the parts of any kind of backup into this folder.

    Returns the marks of its files by their paths in the workspace, None if unknown. Raises
    `KoreError`.
    """
    if not zipfile.is_zipfile(file):
        os.symlink(file, folder / DATABASE)
        return None
    try:
        _check_directory(file)
        with zipfile.ZipFile(file) as packed:
            names = [info.filename for info in packed.infolist() if not info.is_dir()]
            strange = [name for name in names if not _is_ours(name)]
            if strange or DATABASE not in names:
                raise KoreError(t("{path} is not a Kore backup", path=file))
            _check_room(file, packed.infolist(), folder)
            with open_folder_beneath(folder.resolve()) as root, FolderCursor(root) as place:
                for info in packed.infolist():
                    if not info.is_dir():
                        _extract(packed, info, place)
            return read_marks(packed, WORKSPACE)
    except (zipfile.BadZipFile, OSError, RuntimeError) as exc:
        raise KoreError(t("{path} cannot be unpacked: {reason}", path=file, reason=exc)) from exc


def _extract(packed: ZipFile, info: ZipInfo, place: FolderCursor) -> None:
    """Extract a file; its path may be longer than the system allows."""
    *above, name = (part for part in info.filename.split("/") if part not in ("", "."))
    place.go(above)
    with packed.open(info) as source, open(new_file(name, place.folder), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fchmod(target.fileno(), (info.external_attr >> 16 & 0o777) | 0o600)


def _check_directory(file: Path) -> None:
    """Check that the directory fits into memory, before it is read.

    https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3.14 and 4.3.16
    """
    with file.open("rb") as packed:
        packed.seek(max(0, file.stat().st_size - _TAIL_BYTES))
        tail = packed.read()
    sizes = [int.from_bytes(tail[at + 12 : at + 16], "little") for at in _places(tail, b"PK\5\6")]
    sizes += [int.from_bytes(tail[at + 40 : at + 48], "little") for at in _places(tail, b"PK\6\6")]
    # 0xFFFFFFFF is not a size but refers to the larger ZIP64 record.
    if any(_DIRECTORY_BYTES < size_bytes != 0xFFFFFFFF for size_bytes in sizes):
        raise KoreError(
            t("{path} contains too many files", path=file),
            hint=t("The limit is {size}.", size=size(_DIRECTORY_BYTES)),
        )


def _places(data: bytes, mark: bytes) -> Iterator[int]:
    at = data.find(mark)
    while at >= 0:
        yield at
        at = data.find(mark, at + 1)


def _check_room(file: Path, packed: Sequence[ZipInfo], folder: Path) -> None:
    """Check that there is space for two copies of the contents, needed until they are in place.

    `zipfile` never extracts more than the size in the entry.
    """
    for info in packed:
        if info.filename in BESIDE and info.file_size > _BESIDE_BYTES:
            raise KoreError(
                t("{name} in {path} is too large: {size}", name=info.filename, path=file,
                  size=size(info.file_size))
            )  # fmt: skip
    needed_bytes = 2 * sum(info.file_size + _BLOCK_BYTES for info in packed)
    free = int(shutil.disk_usage(folder).free * _SHARE)
    if needed_bytes > free:
        raise KoreError(
            t(
                "{path} needs {wanted}, but only {free} is available",
                path=file,
                wanted=size(needed_bytes),
                free=size(free),
            ),
            hint=t(
                "nothing was restored; free some space or check the file: it may not be a backup"
            ),
        )


def _is_ours(name: str) -> bool:
    parts = name.split("/")
    if ".." in parts or name.startswith("/") or "\\" in name:
        return False
    return name in (DATABASE, *BESIDE) or (len(parts) > 1 and parts[0] in (WORKSPACE, CHANNELS))
