"""The calls about files, for the process that owns the data."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class FilesData(Protocol):
    """Files of the owner's folders."""

    def list_places(self) -> Sequence[str]: ...

    def list_folder(self, place: str, path: str) -> Sequence[Mapping[str, Any]]: ...

    def read_file(self, place: str, path: str) -> Mapping[str, Any]: ...

    def read_picture(self, place: str, path: str) -> Mapping[str, Any]: ...

    def write_file(self, place: str, path: str, text: str, digest: str) -> Mapping[str, Any]: ...


class FilesService:
    """Implements `screen_calls.FileCalls`, on files that are opened for each call."""

    def __init__(self, open_files: Callable[[], FilesData]) -> None:
        self._open_files = open_files

    async def list_places(self) -> Sequence[str]:
        return await asyncio.to_thread(self._open_files().list_places)

    async def list_folder(self, place: str, path: str = "") -> Sequence[Mapping[str, Any]]:
        return await asyncio.to_thread(self._open_files().list_folder, place, path)

    async def read_file(self, place: str, path: str) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._open_files().read_file, place, path)

    async def read_picture(self, place: str, path: str) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._open_files().read_picture, place, path)

    async def write_file(
        self, place: str, path: str, text: str, digest: str = ""
    ) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._open_files().write_file, place, path, text, digest)
