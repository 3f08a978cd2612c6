"""The calls of editors that show files, for the process that owns the data."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gateway.core.records import EditorRequest, SessionServer
from gateway.sessions.editor_hub import EditorHub


class EditorService:
    """Implements `gateway.control.service.EditorCalls`."""

    def __init__(self, editors: EditorHub) -> None:
        self._editors = editors

    @asynccontextmanager
    async def serve_editor(
        self, lane: str, can_read: bool, can_write: bool
    ) -> AsyncIterator[AsyncIterator[EditorRequest]]:
        async with self._editors.serve(lane, can_read, can_write) as requests:
            yield requests

    async def answer_editor(self, request: str, text: str | None) -> bool:
        return self._editors.answer(request, text)

    @asynccontextmanager
    async def attach_servers(
        self, lane: str, servers: tuple[SessionServer, ...]
    ) -> AsyncIterator[AsyncIterator[Sequence[str]]]:
        async with self._editors.servers.attach(lane, servers) as failures:
            yield failures
