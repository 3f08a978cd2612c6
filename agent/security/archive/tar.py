"""Streaming reader for tar archives: plain, or compressed with gzip, bzip2 or xz.

https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html
"""

import bz2
import gzip
import lzma
from collections.abc import Iterator
from tarfile import TarInfo
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from agent.errors import ArchiveRefused
from agent.security.archive.entry import CHUNK_BYTES, ArchiveEntry
from agent.security.files.paths import quote_path

if TYPE_CHECKING:
    from lzma import LZMADecompressor

_BLOCK_BYTES = 512
_NOTE_BYTES = 65_536
_XZ_MEMORY_BYTES = 128_000_000
# Header types that precede a file and may change only its name.
_PAX, _PAX_FOR_ALL, _LONG_NAME = b"x", b"g", b"L"
_PLAIN = (b"0", b"\0", b"7")
_FOLDER = b"5"


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class TarStream:
    """Unpacked bytes of a tar, up to `limit_bytes`."""

    def __init__(self, file: BinaryIO, limit_bytes: int) -> None:
        self._source = _decompress(file)
        self._remaining_bytes = limit_bytes

    def take(self, size_bytes: int) -> bytes:
        """Return exactly `size_bytes` bytes.

        Raises ArchiveRefused at the end of the data or over the limit.
        """
        data = bytearray()
        while len(data) < size_bytes:
            piece = self._read(min(CHUNK_BYTES, size_bytes - len(data)))
            if not piece:
                raise ArchiveRefused("The archive is cut off.")
            data += piece
        return bytes(data)

    def finish(self) -> None:
        """Read to the end, where the compression format has its checksum."""
        while self._read(CHUNK_BYTES):
            pass

    def _read(self, size_bytes: int) -> bytes:
        data = self._source.read(size_bytes)
        self._remaining_bytes -= len(data)
        if self._remaining_bytes < 0:
            raise ArchiveRefused("The archive exceeds the size limit for unpacking.")
        return data


def tar_entries(stream: TarStream) -> Iterator[ArchiveEntry]:
    """Yield the files and folders of a tar.

    Raises ArchiveRefused and the errors of the decompressors.
    """
    long_name: str | None = None
    while any(block := stream.take(_BLOCK_BYTES)):
        info = TarInfo.frombuf(block, "utf-8", "strict")
        if info.size < 0:
            raise ArchiveRefused("The archive is damaged: a size is negative.")
        if info.type in (_PAX, _PAX_FOR_ALL, _LONG_NAME):
            header_name = _name_from_header(info, _note(stream, info.size))
            if header_name is not None and long_name is not None:
                raise ArchiveRefused(f"The archive names {quote_path(header_name)} twice.")
            long_name = header_name or long_name
            continue
        name = info.name if long_name is None else long_name
        long_name = None
        yield _entry(stream, info, name)
        stream.take(-info.size % _BLOCK_BYTES)
    stream.finish()


def _entry(stream: TarStream, info: "TarInfo", name: str) -> ArchiveEntry:
    if info.type == _FOLDER and not info.size:
        return ArchiveEntry(name, True)
    if info.type not in _PLAIN:
        raise ArchiveRefused(f"The archive contains a link or a special file: {quote_path(name)}.")
    return ArchiveEntry(name, False, bool(info.mode & 0o100), _chunks(stream, info.size))


def _chunks(stream: TarStream, remaining_bytes: int) -> Iterator[bytes]:
    while remaining_bytes:
        chunk = stream.take(min(remaining_bytes, CHUNK_BYTES))
        remaining_bytes -= len(chunk)
        yield chunk


def _note(stream: TarStream, size_bytes: int) -> bytes:
    if size_bytes > _NOTE_BYTES:
        raise ArchiveRefused("The archive is damaged: the metadata of a file is too long.")
    note = stream.take(size_bytes)
    stream.take(-size_bytes % _BLOCK_BYTES)
    return note


def _name_from_header(info: "TarInfo", note: bytes) -> str | None:
    if info.type == _LONG_NAME:
        return note.rstrip(b"\0").decode()
    records = dict(_records(note))
    # With sizes or sparse maps, two readers would see two different archives.
    if any(key in ("size", "linkpath", "hdrcharset") or "sparse" in key for key in records):
        raise ArchiveRefused(
            "The archive is too unusual: it states the size or name of a file twice."
        )
    name = records.get("path")
    if name is not None and info.type == _PAX_FOR_ALL:
        raise ArchiveRefused("The archive gives one name to all of its files.")
    return name


def _records(note: bytes) -> Iterator[tuple[str, str]]:
    """Yield key and value of the records, which have the form `<length> <key>=<value>\\n`."""
    while note:
        digits, blank, _ = note[:16].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        record = note[len(digits) + 1 : length]
        key, equals, value = record.partition(b"=")
        if not (blank and equals and length <= len(note) and record.endswith(b"\n")):
            raise ArchiveRefused("The archive is damaged: the metadata of a file cannot be read.")
        yield key.decode(), value[:-1].decode()
        note = note[length:]


def _decompress(file: BinaryIO) -> _Readable:
    start = file.read(6)
    file.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return cast(_Readable, gzip.GzipFile(fileobj=file))
    if start.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if start == b"\xfd7zXZ\0":
        return _Xz(file, lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES))
    return file


class _Xz:
    """Xz stream with limited memory, which `lzma.LZMAFile` does not offer."""

    def __init__(self, file: BinaryIO, decompressor: "LZMADecompressor") -> None:
        self._file = file
        self._decompressor = decompressor

    def read(self, size: int, /) -> bytes:
        while not self._decompressor.eof:
            packed = self._file.read(CHUNK_BYTES) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not packed:
                raise ArchiveRefused("The archive is cut off.")
            if data := self._decompressor.decompress(packed, size):
                return data
        return b""
