"""Pack indexes of version 2: their objects, and whether they match a pack.

https://git-scm.com/docs/gitformat-pack#_version_2_pack_idx_files_support_packs_larger_than_4_gib_and
"""

import hashlib
import os
from itertools import pairwise
from typing import Self

from agent.records import frozen

_HEADER = b"\xfftOc\0\0\0\2"
_FANOUT_ENTRIES = 256
_NAMES = len(_HEADER) + _FANOUT_ENTRIES * 4
# Checksum and offset of each object, without its name.
_ENTRY_BYTES = 4 + 4
_LARGE_OFFSET_BYTES = 8
_PACK_SIGNATURE = b"PACK\0\0\0\2"
_PACK_HEADER_BYTES = len(_PACK_SIGNATURE) + 4
# Size of the smallest object in a pack: its type, and compressed nothing.
_LEAST_OBJECT_BYTES = 9
_CHUNK_BYTES = 1 << 20
# Widths of names in the two repository formats, and their hashes.
_HASHES = {20: "sha1", 32: "sha256"}


@frozen
class OpenFile:
    """Large file: a descriptor that commands may share, and the size when it was opened."""

    descriptor: int
    size: int

    @classmethod
    def of(cls, descriptor: int) -> Self:
        return cls(descriptor, os.fstat(descriptor).st_size)

    def read(self, size: int, position: int = 0) -> bytes:
        """Return a part of the file as it was. Raises OSError."""
        return os.pread(self.descriptor, max(0, min(size, self.size - position)), position)


class PackIndex:
    """Pack index as bytes, or as an open file."""

    def __init__(self, content: bytes | OpenFile) -> None:
        self._content = content

    def _read(self, position: int, size: int) -> bytes:
        if isinstance(self._content, OpenFile):
            return self._content.read(size, position)
        return self._content[position : position + size]

    def _counts(self) -> list[int]:
        """Return the number of names up to each first byte; empty for other versions."""
        head = self._read(0, _NAMES)
        if len(head) < _NAMES or not head.startswith(_HEADER):
            return []
        return [int.from_bytes(head[at : at + 4], "big") for at in range(len(_HEADER), _NAMES, 4)]

    def lists(self, name: bytes) -> bool:
        """Return whether the object is listed."""
        counts = self._counts()
        if not counts:
            return False
        first, width = name[0], len(name)
        start, end = counts[first - 1] if first else 0, counts[first]
        names = self._read(_NAMES + start * width, (end - start) * width)
        return any(names[at : at + width] == name for at in range(0, len(names), width))

    def describes(self, pack: OpenFile) -> bool:
        """Return whether this index and the open pack are complete and belong together.

        The content of the pack is not decompressed.
        """
        counts = self._counts()
        if not counts or any(earlier > later for earlier, later in pairwise(counts)):
            return False
        size = self._content.size if isinstance(self._content, OpenFile) else len(self._content)
        return any(self._is_whole(pack, size, counts[-1], width) for width in _HASHES)

    def _is_whole(self, pack: OpenFile, size: int, count: int, width: int) -> bool:
        large = size - _NAMES - count * (width + _ENTRY_BYTES) - 2 * width
        if large < 0 or large % _LARGE_OFFSET_BYTES or large > count * _LARGE_OFFSET_BYTES:
            return False
        if pack.size < _PACK_HEADER_BYTES + count * _LEAST_OBJECT_BYTES + width:
            return False
        if pack.read(_PACK_HEADER_BYTES) != _PACK_SIGNATURE + count.to_bytes(4, "big"):
            return False
        if pack.read(width, pack.size - width) != self._read(size - 2 * width, width):
            return False
        digest = hashlib.new(_HASHES[width], usedforsecurity=False)
        for position in range(0, size - width, _CHUNK_BYTES):
            digest.update(self._read(position, min(_CHUNK_BYTES, size - width - position)))
        return digest.digest() == self._read(size - width, width)
