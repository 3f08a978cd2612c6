"""Calls of editors: they provide files and MCP servers to the turns of their lane."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.calls.context import ServiceContext
from gateway.control.declaration import call
from gateway.core.records import EditorRequest, SessionServer


@call(scope="admin")
@asynccontextmanager
async def serve_editor(
    ctx: ServiceContext, lane: str, folder: str, can_read: bool, can_write: bool
) -> AsyncIterator[AsyncIterator[EditorRequest]]:
    """Follow the requests of a lane's turns to read or write files in the editor. Answer each
    within seconds. They concern only files in `folder` (a resolved path) and in the turn's folder
    that its tools may open."""
    async with ctx.editors.serve(lane, Path(folder), can_read, can_write) as requests:
        yield requests


@call(scope="admin")
async def answer_editor(
    ctx: ServiceContext, request: str, text: str | None, is_refused: bool = False
) -> bool:
    """Answer a request: with the text of a file, with '' once a file is written, or with None if
    the editor gave no usable answer. If it refused to save (`is_refused`), the change is undone.
    Returns False if the turn no longer waits."""
    return ctx.editors.answer(request, text, is_refused)


@call(scope="admin")
@asynccontextmanager
async def attach_servers(
    ctx: ServiceContext, lane: str, servers: tuple[SessionServer, ...]
) -> AsyncIterator[AsyncIterator[Sequence[str]]]:
    """Give a lane's turns MCP servers that are not in the configuration, while the stream is open.
    Once all servers have listed their tools (or after 10 seconds), the stream delivers an error
    message for each failed server."""
    async with ctx.editors.servers.attach(lane, servers) as failures:
        yield failures
