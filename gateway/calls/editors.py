"""Calls of editors: they provide files and MCP servers to the turns of their lane."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gateway.calls.context import ServiceContext
from gateway.control.declaration import call
from gateway.core.records import EditorRequest, SessionServer


@call(scope="admin")
@asynccontextmanager
async def serve_editor(
    ctx: ServiceContext, lane: str, can_read: bool, can_write: bool
) -> AsyncIterator[AsyncIterator[EditorRequest]]:
    """Follow the requests of the lane's turns to the editor, each to be answered within seconds.
    They concern only files of the turn's folder that its tools may open."""
    async with ctx.editors.serve(lane, can_read, can_write) as requests:
        yield requests


@call(scope="admin")
async def answer_editor(ctx: ServiceContext, request: str, text: str | None) -> bool:
    """Answer a request: with the text of a file, '' once a file is written, None when the request
    failed. False when the turn no longer waits."""
    return ctx.editors.answer(request, text)


@call(scope="admin")
@asynccontextmanager
async def attach_servers(
    ctx: ServiceContext, lane: str, servers: tuple[SessionServer, ...]
) -> AsyncIterator[AsyncIterator[Sequence[str]]]:
    """Give MCP servers to the lane's turns while the stream is open; they are not part of the
    configuration. Once all have listed their tools (or after 10 seconds), a sentence follows
    for each that failed."""
    async with ctx.editors.servers.attach(lane, servers) as failures:
        yield failures
