"""Editors that provide files and MCP servers to the turns of their lanes."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import EditorRefused, KoreError
from agent.i18n import t
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.security.secret_values import secrets_in_map
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.elicitation import decline
from gateway.core.records import EditorRequest, SessionServer

if TYPE_CHECKING:
    from agent.mcp.servers import McpServers
    from agent.tools.registry import JoinSource


_MAX_SERVERS = 50
# The person may have to answer a dialog in the editor, but the turn does not wait for that.
READ_S, WRITE_S = 5.0, 10.0
_MAX_REQUESTS = 16
TEXT_LIMIT_BYTES = 1_000_000


class SessionServers:
    """Session servers of this process's turns, by lane.

    `learn` receives secrets to redact; `configured` returns the servers that all turns have.
    """

    def __init__(
        self,
        tool_settings: Callable[[], ToolSettings],
        learn: Callable[[Iterable[str]], None],
        configured: "Callable[[], McpServers | None]",
    ) -> None:
        self._tool_settings, self._learn, self._configured = tool_settings, learn, configured
        self._servers: dict[str, McpServers] = {}

    def of(self, lane: str) -> "JoinSource | None":
        """Return a function that adds the tools of a lane's servers to other tools."""
        servers = self._servers.get(lane)
        if servers is None:
            return None
        from agent.mcp.joined_servers import JoinedServers

        return partial(JoinedServers, servers)

    @asynccontextmanager
    async def attach(
        self, lane: str, servers: Sequence[SessionServer]
    ) -> AsyncIterator[AsyncIterator[Sequence[str]]]:
        """Run these servers while the context is open; later servers replace earlier ones.

        A server with the name of a configured server is not started. Raises `KoreError` for an
        invalid server.
        """
        from agent.mcp.servers import McpServers

        configured = self._configured()
        names = () if configured is None else configured.names
        all_settings = tuple(map(_settings_of, servers))
        settings = tuple(setting for setting in all_settings if setting.name not in names)
        clashes = [_clash(setting.name) for setting in all_settings if setting.name in names]
        if len(all_settings) > _MAX_SERVERS:
            text = t("an editor may name {most} MCP servers at most", most=_MAX_SERVERS)
            raise KoreError(text)
        for server in servers:
            self._learn((*secrets_in_map(server.env), *secrets_in_map(server.headers)))
        # Each call determines the people to ask. Homes and logs are removed with the servers.
        mcp_settings = McpSettings(settings, elicit=decline)
        running = self._servers[lane] = McpServers(mcp_settings, self._tool_settings())
        try:
            yield _failures_of(running, clashes)
        finally:
            if self._servers.get(lane) is running:
                del self._servers[lane]
            await running.aclose()


def _clash(name: str) -> str:
    return t(
        "Kore has an MCP server {name} of its own, which is used in place of the editor's; to use "
        "both, give the editor's another name.",
        name=escape_line(name)[:80],
    )


async def _failures_of(
    servers: "McpServers", clashes: Sequence[str]
) -> AsyncIterator[Sequence[str]]:
    yield (*clashes, *await servers.load())
    # Later failures are reported by the turn that needs the server.
    await asyncio.Event().wait()


def _settings_of(server: SessionServer) -> McpServerSettings:
    """Return the settings of an editor's server.

    A person at this machine named it, but perhaps from a project's files, so every call needs
    approval, and its descriptions of tools are untrusted.
    """
    if not server.name.strip() or (server.command is None) == (server.url is None):
        text = t("the MCP server {name} has neither a command nor an address", name=server.name)
        raise KoreError(text)
    return McpServerSettings(
        server.name,
        server.command,
        server.args,
        server.env,
        server.url,
        server.headers,
        is_sse=server.is_sse,
        is_own=False,
        is_configured=False,
    )


class EditorSilent(KoreError):
    """Error: the editor gave no usable answer in time."""


@dataclass(eq=False, slots=True)
class _Editor:
    """Connection to an editor that shows files in `folder`.

    `is_silent` after a request has timed out: no further requests are sent. Each entry of `answers`
    belongs to an open request.
    """

    folder: Path
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
        self, lane: str, folder: Path, can_read: bool, can_write: bool
    ) -> AsyncIterator[AsyncIterator[EditorRequest]]:
        """Yield the requests for a lane's editor while the context is open.

        They concern only files in `folder`, a resolved path. A later editor replaces an earlier
        one.
        """
        editor = self._editors[lane] = _Editor(folder, can_read, can_write)
        try:
            yield _requests_of(editor)
        finally:
            if self._editors.get(lane) is editor:
                del self._editors[lane]
            for answer in editor.answers.values():
                if not answer.done():
                    answer.set_exception(EditorSilent(t("the editor has disconnected")))

    def answer(self, request: str, text: str | None, is_refused: bool = False) -> bool:
        """Answer a request; return False if it is no longer open.

        `text` is None if the editor gave no usable answer, or if it refused.
        """
        for editor in self._editors.values():
            future = editor.answers.get(request)
            if future is not None and not future.done():
                if is_refused:
                    future.set_exception(EditorRefused(t("the editor sent no text")))
                elif text is None or not _is_usable(text):
                    future.set_exception(EditorSilent(t("the editor sent no text")))
                else:
                    future.set_result(text)
                return True
        return False

    def files_of(self, lane: str) -> "LaneFiles":
        """Return access to files as shown by this lane's editor, if there is one."""
        return LaneFiles(self, lane)

    async def read(self, lane: str, path: Path) -> str | None:
        editor = self._editors.get(lane)
        if editor is None or not editor.can_read or not path.is_relative_to(editor.folder):
            return None
        try:
            return await self._ask(editor, EditorRequest(_id(), "read", str(path)), self._read_s)
        except EditorRefused as exc:
            raise EditorSilent(str(exc)) from exc

    async def write(self, lane: str, path: Path, text: str) -> bool:
        editor = self._editors.get(lane)
        if editor is None or not editor.can_write or not path.is_relative_to(editor.folder):
            return False
        if len(text.encode()) > TEXT_LIMIT_BYTES:
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
