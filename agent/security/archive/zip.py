"""Reader for zip archives in the only form that all programs interpret alike.

https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
"""

import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO
from zipfile import ZipFile

from agent.errors import ArchiveRefused
from agent.security.archive.entry import CHUNK_BYTES, ArchiveEntry, ArchiveLimits
from agent.security.files.paths import quote_path

if TYPE_CHECKING:
    from zipfile import ZipInfo

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
_END = b"PK\x05\x06"
_END_BYTES = 22
_COMMENT_BYTES = 65_535
_HEADER_BYTES = 30
# The index is read as a whole; names and extra fields of this average length are enough.
_INDEX_BYTES_PER_ENTRY = 512
_ENCRYPTED, _UTF8 = 0x1, 0x800
_STORED, _DEFLATED = 0, 8


def zip_entries(file: BinaryIO, size_bytes: int, caps: ArchiveLimits) -> Iterator[ArchiveEntry]:
    """Yield the files and folders of a zip. Raises ArchiveRefused and the errors of `zipfile`."""
    index = _check_index(file, size_bytes, caps)
    with ZipFile(file) as archive:
        infos = archive.infolist()
        if len(infos) > caps.entries:
            raise ArchiveRefused(f"The archive contains more than {caps.entries:,} entries.")
        _refuse_overlaps(infos, index)
        for info in infos:
            yield _entry(archive, info)


def _check_index(file: BinaryIO, size_bytes: int, caps: ArchiveLimits) -> int:
    """Return the offset of the index.

    Raises ArchiveRefused if the end record names another offset.
    """
    file.seek(max(0, size_bytes - _END_BYTES - _COMMENT_BYTES))
    tail = file.read()
    at = tail.rfind(_END)
    end = tail[at : at + _END_BYTES]
    if at < 0 or len(end) < _END_BYTES:
        raise ArchiveRefused("The archive is cut off: a zip ends with an index, this one does not.")
    length, start = (int.from_bytes(end[i : i + 4], "little") for i in (12, 16))
    comment = int.from_bytes(end[20:22], "little")
    if length > caps.entries * _INDEX_BYTES_PER_ENTRY:
        raise ArchiveRefused(f"The archive contains more than {caps.entries:,} entries.")
    position = size_bytes - len(tail) + at
    if start + length != position or at + _END_BYTES + comment != len(tail):
        raise ArchiveRefused("The archive is not a plain zip: its index is not where it should be.")
    return start


def _refuse_overlaps(infos: "list[ZipInfo]", index: int) -> None:
    """Reject entries that share data, as in a zip bomb.

    https://www.bamsoftware.com/hacks/zipbomb/
    """
    free = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < free:
            raise ArchiveRefused("The archive contains entries that overlap.")
        free = info.header_offset + _HEADER_BYTES + len(info.filename) + info.compress_size
    if free > index:
        raise ArchiveRefused("The archive contains entries that overlap.")


def _entry(archive: "ZipFile", info: "ZipInfo") -> ArchiveEntry:
    name = _name(info)
    if info.flag_bits & _ENCRYPTED:
        raise ArchiveRefused(f"The archive is encrypted ({quote_path(name)}).")
    if info.compress_type not in (_STORED, _DEFLATED):
        raise ArchiveRefused(
            f"The archive packs {quote_path(name)} in an unusual way; use deflate."
        )
    mode = info.external_attr >> 16
    kind = stat.S_IFMT(mode)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ArchiveRefused(f"The archive contains a link or a special file: {quote_path(name)}.")
    is_folder = name.endswith("/")
    if (kind and is_folder != (kind == stat.S_IFDIR)) or (is_folder and info.file_size):
        raise ArchiveRefused(f"The archive contradicts itself: is {quote_path(name)} a folder?")
    if is_folder:
        return ArchiveEntry(name, True)
    return ArchiveEntry(name, False, bool(mode & stat.S_IXUSR), _chunks(archive, info))


def _name(info: "ZipInfo") -> str:
    name = info.orig_filename
    if info.flag_bits & _UTF8 or name.isascii():
        return name
    # Not marked as UTF-8, so `zipfile` decoded it as code page 437; some packers omit the mark.
    try:
        return name.encode("cp437").decode("utf-8")
    except UnicodeError as exc:
        raise ArchiveRefused(
            f"The archive contains a name that is not UTF-8: {quote_path(name)}."
        ) from exc


def _chunks(archive: "ZipFile", info: "ZipInfo") -> Iterator[bytes]:
    with archive.open(info) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
