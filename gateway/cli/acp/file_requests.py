"""File requests to the editor, for turns that read and change files."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import acp
from acp.schema import FileSystemCapabilities

from agent.errors import KoreError
from agent.records import frozen
from gateway.control.service import Service
from gateway.core.records import EditorRequest
from gateway.core.tasks import task_scope

log = logging.getLogger(__name__)


@frozen
class EditorFolder:
    """Working folder of an editor: the path in the editor and the resolved path."""

    editor_path: Path
    real_path: Path

    def path_in_editor(self, path: str) -> str:
        """Return the path in the editor. Raises `ValueError` outside of the folder."""
        return str(self.editor_path / Path(path).relative_to(self.real_path))


class FileRequests:
    """Forwarder of file requests to an editor that supports them (`offer`)."""

    def __init__(
        self, client: acp.Client, folder: EditorFolder, offer: FileSystemCapabilities
    ) -> None:
        self._client = client
        self._folder = folder
        self._offer = offer

    @asynccontextmanager
    async def served(self, service: Service, session: str, lane: str) -> AsyncIterator[None]:
        """Answer the file requests of the lane while the context is open. Raises `KoreError`."""
        can_read = bool(self._offer.read_text_file)
        can_write = bool(self._offer.write_text_file)
        if not can_read and not can_write:
            yield
            return
        folder = str(self._folder.real_path)
        serving = service.serve_editor(lane, folder, can_read, can_write)
        async with serving as requests, task_scope() as start:
            start(self._serve(service, session, requests))
            yield

    async def _serve(
        self, service: Service, session: str, requests: AsyncIterator[EditorRequest]
    ) -> None:
        async with asyncio.TaskGroup() as group:
            async for request in requests:
                group.create_task(self._answer(service, session, request))

    async def _answer(self, service: Service, session: str, request: EditorRequest) -> None:
        text: str | None = None
        is_refused = False
        try:
            text = await self._ask(session, request)
        except (acp.RequestError, ValueError) as exc:
            # The editor's own error is a refusal, an invalid answer is none. The message may
            # contain text of the file.
            is_refused = isinstance(exc, acp.RequestError)
            log.info("the editor did not %s a file: %s", request.action, type(exc).__name__)
        except OSError as exc:
            # Without a connection there is no answer.
            log.info("the editor cannot %s a file: %s", request.action, type(exc).__name__)
            return
        try:
            await service.answer_editor(request.id, text, is_refused)
        except KoreError as exc:
            # After its deadline the turn stops waiting and uses the file on disk.
            log.info("an editor's answer was rejected: %s", exc)

    async def _ask(self, session: str, request: EditorRequest) -> str:
        path = self._folder.path_in_editor(request.path)
        if request.action == "write":
            await self._client.write_text_file(session_id=session, path=path, content=request.text)
            return ""
        response = await self._client.read_text_file(session_id=session, path=path)
        return response.content
