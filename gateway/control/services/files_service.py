"""The calls about files, for the process that owns the data."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gateway.control.services.owner_audit import OwnerAudit


class FilesData(Protocol):
    """Files of the owner's folders."""

    def list_places(self) -> Sequence[str]: ...

    def list_folder(self, place: str, path: str) -> Sequence[Mapping[str, Any]]: ...

    def read_file(self, place: str, path: str) -> Mapping[str, Any]: ...

    def read_picture(self, place: str, path: str) -> Mapping[str, Any]: ...

    def compare(self, place: str, path: str, text: str) -> Mapping[str, Any]: ...


class FileChanges(Protocol):
    """Changes to them, which can be taken back."""

    async def write(self, place: str, path: str, text: str, digest: str) -> Mapping[str, Any]: ...

    async def make_folder(self, place: str, path: str) -> str: ...

    async def move(self, place: str, path: str, to: str | None) -> str: ...

    async def take_back(self, place: str, *, is_redo: bool) -> Mapping[str, Any]: ...


class FilesService:
    """Implements `screen_calls.FileCalls`, on files that are opened for each call."""

    def __init__(
        self,
        open_files: Callable[[], FilesData],
        open_changes: Callable[[], FileChanges],
        audit: OwnerAudit,
    ) -> None:
        self._open_files = open_files
        self._open_changes = open_changes
        self._file_audit = audit

    async def list_places(self) -> Sequence[str]:
        return await asyncio.to_thread(self._open_files().list_places)

    async def list_folder(self, place: str, path: str = "") -> Sequence[Mapping[str, Any]]:
        return await asyncio.to_thread(self._open_files().list_folder, place, path)

    async def read_file(self, place: str, path: str) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._open_files().read_file, place, path)

    async def read_picture(self, place: str, path: str) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._open_files().read_picture, place, path)

    async def compare_file(self, place: str, path: str, text: str) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._open_files().compare, place, path, text)

    async def write_file(
        self, place: str, path: str, text: str, digest: str = ""
    ) -> Mapping[str, Any]:
        async with self._file_audit.change("file", "write", folder=place, path=path):
            return await self._open_changes().write(place, path, text, digest)

    async def make_folder(self, place: str, path: str) -> str:
        async with self._file_audit.change("file", "make folder", folder=place, path=path):
            return await self._open_changes().make_folder(place, path)

    async def move_path(self, place: str, path: str, to: str) -> str:
        async with self._file_audit.change("file", "move", folder=place, path=path, to=to):
            return await self._open_changes().move(place, path, to)

    async def delete_path(self, place: str, path: str) -> str:
        async with self._file_audit.change("file", "delete", folder=place, path=path):
            return await self._open_changes().move(place, path, None)

    async def undo_change(self, place: str, redo: bool = False) -> Mapping[str, Any]:
        operation = "redo" if redo else "undo"
        async with self._file_audit.change("file", operation, folder=place):
            return await self._open_changes().take_back(place, is_redo=redo)
