"""Zip files written from a walk through a folder."""

import shutil
import time
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipInfo

from agent.security.files.folder_tree import TreeEntry

if TYPE_CHECKING:
    from zipfile import ZipFile

# Few programs unpack longer names, and none opens them.
NAME_BYTES = 4000
# Files may be outside of the format's years: 1980-01-02 to 2107-12-30.
_FIRST, _LAST = 315_619_200, 4_354_732_800


class ZipWriter:
    """Writer into `packed`; `left_out` counts files with invalid names and unreadable files."""

    def __init__(self, packed: "ZipFile") -> None:
        self.left_out = 0
        self._packed = packed

    def add(self, member: TreeEntry, folder: str) -> ZipInfo | None:
        """Add the file below this folder; None if it is left out.

        Raises `OSError` when it cannot be read or written.
        """
        name = f"{folder}/{member.path}"
        if not _is_nameable(name):
            self.left_out += 1
            return None
        try:
            fd = member.open_file()
        except FileNotFoundError:
            return None
        except OSError:
            self.left_out += 1
            return None
        with open(fd, "rb") as file:
            modified_at = time.localtime(min(max(member.info.st_mtime, _FIRST), _LAST))
            info = ZipInfo(name, modified_at[:6])
            info.external_attr = (member.info.st_mode & 0xFFFF) << 16
            info.compress_type = ZIP_DEFLATED
            info.file_size = member.info.st_size
            with self._packed.open(info, "w") as target:
                shutil.copyfileobj(file, target, 1 << 20)
        return info

    def add_folder(self, member: TreeEntry, folder: str) -> ZipInfo | None:
        """Add the folder itself, without its content; None if its name is invalid."""
        name = f"{folder}/{member.path}/"
        if not _is_nameable(name):
            return None
        info = ZipInfo(name)
        self._packed.writestr(info, b"")
        return info


def _is_nameable(name: str) -> bool:
    try:
        return len(name.encode()) <= NAME_BYTES
    except UnicodeEncodeError:
        return False
