"""Hub for editors that provide files to the turns of their lanes."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from gateway.core.records import EditorRequest
from gateway.sessions.session_servers import SessionServers

# A person may look at a dialog of the editor, but the turn does not wait for that.
READ_S, WRITE_S = 5.0, 10.0
_MAX_REQUESTS = 16
TEXT_LIMIT_BYTES = 1_000_000


class EditorSilent(KoreError):
    """The editor gave no usable answer in time."""


@dataclass(eq=False, slots=True)
class _Editor:
    """Connection to an editor.

    `is_silent` after a request has timed out: no further requests are sent. Each entry of `answers`
    belongs to an open request.
    """

    can_read: bool
    can_write: bool
    requests: asyncio.Queue[EditorRequest] = field(
        default_factory=lambda: asyncio.Queue(_MAX_REQUESTS)
    )
    answers: dict[str, asyncio.Future[str]] = field(default_factory=dict)
    is_silent: bool = False


class EditorHub:
    """Editors of this process's turns, by lane, and the MCP servers that they name."""

    def __init__(
        self, servers: SessionServers, read_s: float = READ_S, write_s: float = WRITE_S
    ) -> None:
        self.servers = servers
        self._read_s, self._write_s = read_s, write_s
        self._editors: dict[str, _Editor] = {}

    @asynccontextmanager
    async def serve(
        self, lane: str, can_read: bool, can_write: bool
    ) -> AsyncIterator[AsyncIterator[EditorRequest]]:
        """Yield the requests for a lane's editor until the block ends.

        A later editor replaces an earlier one.
        """
        editor = self._editors[lane] = _Editor(can_read, can_write)
        try:
            yield _requests_of(editor)
        finally:
            if self._editors.get(lane) is editor:
                del self._editors[lane]
            for answer in editor.answers.values():
                if not answer.done():
                    answer.set_exception(EditorSilent(t("the editor has left")))

    def answer(self, request: str, text: str | None) -> bool:
        """Answer a request; False when it is no longer open.

        `text` is None if the editor could not do it.
        """
        for editor in self._editors.values():
            future = editor.answers.get(request)
            if future is not None and not future.done():
                if text is None or not _is_usable(text):
                    future.set_exception(EditorSilent(t("the editor sent no text")))
                else:
                    future.set_result(text)
                return True
        return False

    def files_of(self, lane: str) -> "LaneFiles":
        """Return access to files as this lane's editor shows them, while there is one."""
        return LaneFiles(self, lane)

    async def read(self, lane: str, path: Path) -> str | None:
        editor = self._editors.get(lane)
        if editor is None or not editor.can_read:
            return None
        return await self._ask(editor, EditorRequest(_id(), "read", str(path)), self._read_s)

    async def write(self, lane: str, path: Path, text: str) -> bool:
        editor = self._editors.get(lane)
        if editor is None or not editor.can_write or len(text.encode()) > TEXT_LIMIT_BYTES:
            return False
        await self._ask(editor, EditorRequest(_id(), "write", str(path), text), self._write_s)
        return True

    async def _ask(self, editor: _Editor, request: EditorRequest, timeout_s: float) -> str:
        if editor.is_silent:
            raise EditorSilent(t("the editor does not answer"))
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        try:
            editor.answers[request.id] = future
            editor.requests.put_nowait(request)
            async with asyncio.timeout(timeout_s):
                return await future
        except (TimeoutError, asyncio.QueueFull) as exc:
            editor.is_silent = True
            raise EditorSilent(t("the editor does not answer")) from exc
        finally:
            del editor.answers[request.id]


class LaneFiles:
    """Implementation of `agent.tools.base.EditorFiles` for one lane."""

    def __init__(self, hub: EditorHub, lane: str) -> None:
        self._hub, self._lane = hub, lane

    async def read_text(self, path: Path) -> str | None:
        return await self._hub.read(self._lane, path)

    async def write_text(self, path: Path, text: str) -> bool:
        return await self._hub.write(self._lane, path, text)


async def _requests_of(editor: _Editor) -> AsyncIterator[EditorRequest]:
    while True:
        yield await editor.requests.get()


def _is_usable(text: str) -> bool:
    """Return whether tools could have written this text to a file."""
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        return False
    return size_bytes <= TEXT_LIMIT_BYTES and "\0" not in text


def _id() -> str:
    return os.urandom(16).hex()
