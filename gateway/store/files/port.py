"""Interface of the file store for several machines: named objects that are written atomically."""

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from agent.errors import KoreError
from agent.records import frozen
from gateway.store.errors import catalogue_text

# `area/name`: an area is one or two plain words, a name is only a digest.
_OBJECT = re.compile(r"[a-z0-9]{1,64}(?:/[a-z0-9]{1,64})?/[0-9a-f]{40,64}")

# All areas in use; `check` is for checking that the store works.
AREAS = ("undo", "outgoing", "inbox", "check")

UNREACHABLE = catalogue_text("files cannot be stored in or read from {place}: {reason}")


class FileStoreError(KoreError):
    """A file cannot be stored in `store.files`, or cannot be read from there."""

    code = "files"

    def __init__(self, message: str, /, *, hint: str | None = None, **fields: object) -> None:
        super().__init__(message, hint=hint, fields=fields)


class FileStoreUnavailable(FileStoreError):
    """The store does not answer, is full or denies access; a later attempt may succeed."""


class StoredFileMissing(FileStoreError):
    """The file does not exist."""


class StoredFileDamaged(FileStoreError):
    """The stored contents differ from the original, so they are not used."""


@frozen
class StoredObject:
    """An object in the store; `modified_at` is the Unix time of the machine that stores it."""

    name: str
    size_bytes: int
    modified_at: float


class ObjectStore(Protocol):
    """Store of objects, named by `object_name`.

    All methods block and are called in threads. Each raises `FileStoreUnavailable` on failure.
    """

    @property
    def place(self) -> str:
        """Name of the store for people, without secrets."""
        ...

    def write(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """Replace the object with the joined pieces, atomically and durably.

        An error raised by `pieces` propagates, and nothing is changed.
        """
        ...

    def read(self, name: str) -> AbstractContextManager[Iterator[bytes]]:
        """Return the bytes of the object in pieces. Raises `StoredFileMissing`."""
        ...

    def find(self, name: str) -> StoredObject | None: ...

    def delete(self, name: str) -> None:
        """Delete the object, if it exists."""
        ...

    def list(self, area: str) -> Iterator[StoredObject]:
        """Yield all objects below an area, in any order; they may change meanwhile."""
        ...

    def discard_unfinished(self, before: float) -> None:
        """Delete the remains of writes that were killed before this time (Unix)."""
        ...


def object_name(area: str, digest: str) -> str:
    """Return the name of an object. Raises `ValueError` for an invalid area or digest."""
    name = f"{area}/{digest}"
    if not _OBJECT.fullmatch(name):
        raise ValueError(f"not the name of an object: {name[:200]!r}")
    return name


def is_object_name(name: str) -> bool:
    return _OBJECT.fullmatch(name) is not None


def missing_error(place: str) -> StoredFileMissing:
    return StoredFileMissing(
        catalogue_text("a file is not in {place}"),
        hint=catalogue_text(
            "It was deleted, or store.files or the encryption key differ between the machines."
        ),
        place=place,
    )


def damaged_error(place: str) -> StoredFileDamaged:
    return StoredFileDamaged(
        catalogue_text("a file in {place} is damaged, so it is not used"),
        hint=catalogue_text(
            "Check the storage; files that are sent or written again are stored again."
        ),
        place=place,
    )
