"""What holds the files of a Kore that runs on several machines: named objects, written whole."""

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from agent.errors import KoreError
from agent.records import frozen
from gateway.store.errors import catalogue_text

# `area/name`: an area is a few plain words, a name is a digest and nothing else.
_OBJECT = re.compile(r"[a-z0-9]{1,64}(?:/[a-z0-9]{1,64})?/[0-9a-f]{40,64}")

# All areas that are in use; `check` is for a check that the store works.
AREAS = ("undo", "outgoing", "inbox", "check")

UNREACHABLE = catalogue_text("files cannot be stored in or read from {place}: {reason}")


class FileStoreError(KoreError):
    """A file cannot be stored in `store.files`, or not be read from there."""

    code = "files"

    def __init__(self, message: str, /, *, hint: str | None = None, **fields: object) -> None:
        super().__init__(message, hint=hint, fields=fields)


class FileStoreUnavailable(FileStoreError):
    """The store does not answer, is full or refuses us: the same may be done later."""


class StoredFileMissing(FileStoreError):
    """There is no such file."""


class StoredFileDamaged(FileStoreError):
    """What is stored is not what was put in, so it is not used."""


@frozen
class StoredObject:
    """`modified_at` is Unix time of the machine that keeps it."""

    name: str
    size_bytes: int
    modified_at: float


class ObjectStore(Protocol):
    """Objects by names of `object_name`; everything blocks and is called in threads.

    Each call raises `FileStoreUnavailable` when it could not be done.
    """

    @property
    def place(self) -> str:
        """For people, without a secret."""
        ...

    def write(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """Make the object hold what the pieces come to, all or nothing, durably. What raises an
        error in `pieces` raises it here, and nothing has changed."""
        ...

    def read(self, name: str) -> AbstractContextManager[Iterator[bytes]]:
        """Its bytes in pieces. Raises `StoredFileMissing`."""
        ...

    def find(self, name: str) -> StoredObject | None: ...

    def delete(self, name: str) -> None:
        """Also when there is none."""
        ...

    def list(self, area: str) -> Iterator[StoredObject]:
        """All below an area, in any order; they may change meanwhile."""
        ...

    def discard_unfinished(self, before: float) -> None:
        """Delete what writes that were killed before this time (Unix) have left."""
        ...


def object_name(area: str, digest: str) -> str:
    """Raises `ValueError` for what is no plain area and digest."""
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
        hint=catalogue_text("Check the storage; what is sent or written again is stored anew."),
        place=place,
    )
