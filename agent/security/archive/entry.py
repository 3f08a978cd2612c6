"""Entries of an archive, validation of their names, and size limits."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import field

from agent.errors import ArchiveRefused
from agent.records import frozen
from agent.security.files.paths import normalize_filename, quote_path
from agent.text.visible import hidden_character

CHUNK_BYTES = 65_536
# Small archives may exceed the ratio: a megabyte of zeros compresses to a kilobyte.
FREE_BYTES = 1_000_000
_DEPTH = 32
_COMPONENT_BYTES = 255
_NAME_BYTES = 1024
_DRIVE = re.compile(r"[A-Za-z]:")


@frozen
class ArchiveLimits:
    """Limits for unpacking.

    `entries` counts files and folders; `ratio` limits the unpacked size relative to the packed
    size.
    """

    entries: int = 10_000
    total_bytes: int = 256_000_000
    file_bytes: int = 64_000_000
    ratio: int = 100

    def allowed_bytes(self, packed_bytes: int) -> int:
        """Return the unpacked size allowed for an archive of this size."""
        return min(self.total_bytes, max(FREE_BYTES, self.ratio * packed_bytes))


@frozen
class ArchiveEntry:
    """File or folder in an archive.

    `chunks` must be read to the end before the next entry is requested.
    """

    name: str
    is_folder: bool
    is_executable: bool = False
    chunks: Iterator[bytes] = field(default_factory=lambda: iter(()))


class NameValidator:
    """Validator that rejects unsafe names, and names that collide on some file systems."""

    def __init__(self, caps: ArchiveLimits) -> None:
        self._limit = caps.entries
        self._entries: dict[tuple[str, ...], tuple[tuple[str, ...], bool]] = {}

    def take(self, entry: ArchiveEntry) -> tuple[str, ...]:
        """Return the components of an entry's name.

        Raises ArchiveRefused for an unsafe or duplicate name.
        """
        parts = _components(entry.name)
        for end in range(1, len(parts) + 1):
            self._add(parts[:end], end < len(parts) or entry.is_folder, entry.name)
        if len(self._entries) > self._limit:
            raise ArchiveRefused(
                f"The archive contains more than {self._limit:,} files and folders."
            )
        return parts

    def _add(self, parts: tuple[str, ...], is_folder: bool, name: str) -> None:
        key = tuple(normalize_filename(part) for part in parts)
        earlier = self._entries.get(key)
        if earlier is None:
            self._entries[key] = (parts, is_folder)
        elif earlier != (parts, True) or not is_folder:
            first = quote_path("/".join(earlier[0]))
            raise ArchiveRefused(
                f"The archive contains two entries for one name: {first} and {quote_path(name)}."
            )


def _components(name: str) -> tuple[str, ...]:
    text = unicodedata.normalize("NFC", name)
    if (character := hidden_character(text)) is not None:
        raise _unsafe(name, f"it contains the character {character}, which cannot be seen")
    if text.startswith("/") or _DRIVE.match(text):
        raise _unsafe(name, "it is an absolute path")
    if "\\" in text or ":" in text:
        raise _unsafe(name, "it contains a backslash or a colon")
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    if ".." in parts:
        raise _unsafe(name, "it leads out of its folder")
    if any(part != part.rstrip(" .") for part in parts):
        raise _unsafe(name, "a part of it ends in a dot or a blank")
    longest = max((len(part.encode()) for part in parts), default=0)
    if longest > _COMPONENT_BYTES or len(text.encode()) > _NAME_BYTES or len(parts) > _DEPTH:
        raise _unsafe(name, "it is too long or nested too deeply")
    return parts


def _unsafe(name: str, why: str) -> ArchiveRefused:
    return ArchiveRefused(
        f"The archive contains an entry with an unsafe name: {quote_path(name)}; {why}."
    )
