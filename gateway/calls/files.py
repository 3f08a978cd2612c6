"""Calls about files of the owner's folders and about notes of the workspace.

A `place` is an item of `list_places`; a `path` is relative to its place.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.calls.context import ServiceContext
from gateway.control.declaration import call


@call(scope="admin")
async def list_places(ctx: ServiceContext) -> Sequence[str]:
    """List the folders that the file calls accept as `place`: the workspace, trusted folders and
    folders of chats."""
    return await asyncio.to_thread(ctx.screens.files().list_places)


@call(scope="admin")
async def list_folder(
    ctx: ServiceContext, place: str, path: str = ""
) -> Sequence[Mapping[str, Any]]:
    """List the contents of a folder, folders first: `name`, `is_folder`, `size` (bytes),
    `changed_at` (Unix time)."""
    return await asyncio.to_thread(ctx.screens.files().list_folder, place, path)


@call(scope="admin")
async def read_file(ctx: ServiceContext, place: str, path: str) -> Mapping[str, Any]:
    """Return a text file: `text`, `digest`, `size` (bytes, 1 MB at most); the digest of a missing
    file is ''."""
    return await asyncio.to_thread(ctx.screens.files().read_file, place, path)


@call(scope="admin")
async def read_picture(ctx: ServiceContext, place: str, path: str) -> Mapping[str, Any]:
    """Return a picture (PNG, JPEG, GIF or WebP, 5 MB at most): `media_type`, and `data` as
    base64."""
    return await asyncio.to_thread(ctx.screens.files().read_picture, place, path)


@call(scope="admin")
async def write_file(
    ctx: ServiceContext, place: str, path: str, text: str, digest: str = ""
) -> Mapping[str, Any]:
    """Replace a text file if it still has this `digest` ('': create the file); returns the same as
    `read_file`. Fails with `file-changed` if the file has changed."""
    async with ctx.owner_audit.change("file", "write", folder=place, path=path):
        return await ctx.screens.file_changes().write(place, path, text, digest)


@call(scope="admin")
async def compare_file(ctx: ServiceContext, place: str, path: str, text: str) -> Mapping[str, Any]:
    """Compare a text with the current file: the `diff` from the file to the text, and the file's
    `digest`."""
    return await asyncio.to_thread(ctx.screens.files().compare, place, path, text)


@call(scope="admin")
async def make_folder(ctx: ServiceContext, place: str, path: str) -> str:
    """Create a folder and its missing parents; returns a confirmation."""
    async with ctx.owner_audit.change("file", "make folder", folder=place, path=path):
        return await ctx.screens.file_changes().make_folder(place, path)


@call(scope="admin")
async def move_path(ctx: ServiceContext, place: str, path: str, to: str) -> str:
    """Move or rename a file or a folder like the tool `move_file`: nothing is overwritten, and a
    move into an existing folder keeps the name. Returns a confirmation."""
    async with ctx.owner_audit.change("file", "move", folder=place, path=path, to=to):
        return await ctx.screens.file_changes().move(place, path, to)


@call(scope="admin")
async def delete_path(ctx: ServiceContext, place: str, path: str) -> str:
    """Delete a file, or a folder with its contents; returns a confirmation."""
    async with ctx.owner_audit.change("file", "delete", folder=place, path=path):
        return await ctx.screens.file_changes().move(place, path, None)


@call(scope="admin")
async def undo_change(ctx: ServiceContext, place: str, redo: bool = False) -> Mapping[str, Any]:
    """Undo the latest change that these calls made in a place, or redo the last one undone: `text`
    describes the result, `paths` are the changed paths. The owner's `/undo` also reverts these
    changes."""
    operation = "redo" if redo else "undo"
    async with ctx.owner_audit.change("file", operation, folder=place):
        return await ctx.screens.file_changes().take_back(place, is_redo=redo)


@call(scope="admin")
async def read_note(ctx: ServiceContext, name: str) -> Mapping[str, Any]:
    """Return a file of the workspace (such as USER.md, memory/MEMORY.md): `text`, `digest`."""
    return await asyncio.to_thread(ctx.screens.workbench().read_note, name)


@call(scope="admin")
async def write_note(ctx: ServiceContext, name: str, text: str, digest: str) -> Mapping[str, Any]:
    """Replace a file of the workspace if it still has this `digest`; returns the same as
    `read_note`."""
    async with ctx.owner_audit.change("file", "write", path=name):
        return await asyncio.to_thread(ctx.screens.workbench().write_note, name, text, digest)
