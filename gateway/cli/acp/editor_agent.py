"""Agent for editors: Agent Client Protocol, version 1, over standard input and output.

https://agentclientprotocol.com
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import acp
from acp.schema import (
    AgentCapabilities,
    ClientCapabilities,
    CloseSessionResponse,
    FileSystemCapabilities,
    Implementation,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
)

from agent.errors import KoreError
from agent.security.policy.base import is_mode
from agent.version import VERSION
from gateway.cli.acp.conversation import (
    ConnectedEditor,
    EditorConversation,
    error_of,
    read_commands,
)
from gateway.cli.acp.editor_lines import EditorLines
from gateway.cli.acp.editor_servers import EditorServers
from gateway.cli.acp.file_requests import EditorFolder, FileRequests
from gateway.cli.acp.prompt_blocks import read_blocks, refusal
from gateway.cli.acp.questions import EditorQuestions
from gateway.cli.acp.session_choices import MODE, MODEL, SessionChoices, mode_of_value
from gateway.cli.chat.project_options import project_context
from gateway.cli.chat.service_connection import ServiceConnection
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.control.service import Service
from gateway.core.messages import MessageOptions
from gateway.core.session_folder import SessionFolder
from gateway.core.tasks import Start, task_scope
from gateway.ops.working_place import WorkingPlace, chosen_place
from gateway.turns.agents.profiles import origin_of, skill_catalog

if TYPE_CHECKING:
    from gateway.config import Settings
    from gateway.runtime.paths import DataDir

log = logging.getLogger(__name__)
T = TypeVar("T")
Commands = Sequence[Mapping[str, Any]]
_PROTOCOL = 1
_MOST_SESSIONS = 100
# Interval for finding commands and skills that changed while an editor is idle.
_COMMANDS_INTERVAL_S = 5.0
# Pictures and files are part of a single line.
_LINE_BYTES = 50 * 1024 * 1024


class EditorAgent:
    """Implements `acp.Agent`.

    `options` apply to every message of an editor; `start` starts background tasks.
    """

    def __init__(
        self,
        line: ServiceConnection,
        settings: "Settings",
        home: "DataDir",
        options: MessageOptions,
        start: Start,
    ) -> None:
        self._start = start
        self._home = home
        self._line = line
        self._lane = idle_lane()
        self._settings = settings
        self._options = options
        self._origin = origin_of(settings, home)
        self._client: acp.Client | None = None
        self._offer = ClientCapabilities()
        self._conversations: dict[str, EditorConversation] = {}

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        **_: Any,
    ) -> acp.InitializeResponse:
        self._offer = client_capabilities or ClientCapabilities()
        return acp.InitializeResponse(
            protocol_version=min(protocol_version, _PROTOCOL) or _PROTOCOL,
            agent_info=Implementation(name="kore", title="Kore", version=VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                mcp_capabilities=McpCapabilities(http=True, sse=True),
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(), close=SessionCloseCapabilities()
                ),
            ),
            auth_methods=[],
        )

    async def authenticate(self, method_id: str, **_: Any) -> None:
        """Do nothing: the person who starts `kore acp` owns the data."""

    async def new_session(
        self, cwd: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> NewSessionResponse:
        conversation, choices = await _or_error(self._open(cwd, None, mcp_servers))
        self._start(self._announce_commands(conversation))
        return NewSessionResponse(
            session_id=conversation.session,
            modes=choices.mode_state(),
            config_options=choices.config_options(),
        )

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> LoadSessionResponse:
        conversation, choices = await _or_error(self._open(cwd, session_id, mcp_servers))
        messages = await _or_error(conversation.messages())
        await conversation.replay(messages)
        self._start(self._announce_commands(conversation))
        return LoadSessionResponse(
            modes=choices.mode_state(), config_options=choices.config_options()
        )

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> ListSessionsResponse:
        """Return all sessions, or the sessions of a folder and of its repository.

        Sessions that were not started in a terminal or an editor have no folder; they are listed
        under the folder of this process.
        """
        workspace: str | None = None
        if cwd is not None:
            folder = await asyncio.to_thread(_folder_of, cwd)
            workspace = str((await asyncio.to_thread(self._place_of, folder)).workspace)
        listing = self._line.call(
            self._lane, lambda service: service.list_sessions(_MOST_SESSIONS, workspace)
        )
        return ListSessionsResponse(
            sessions=[
                SessionInfo(
                    session_id=session_info.id,
                    cwd=cwd or _folder_path(session_info.folder),
                    title=session_info.name or None,
                    updated_at=datetime.fromtimestamp(session_info.last_active_at, UTC).isoformat(),
                )
                for session_info in await _or_error(listing)
            ]
        )

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        conversation = self._conversations.pop(session_id, None)
        if conversation is not None:
            await _or_error(conversation.end())
        return CloseSessionResponse()

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> SetSessionModeResponse:
        """Set the mode, for editors without configuration options."""
        await self._choose(session_id, MODE, mode_id)
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        choices = await self._choose(session_id, config_id, value)
        return SetSessionConfigOptionResponse(config_options=choices.config_options())

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        conversation = self._conversation(session_id)
        parts = read_blocks(prompt, self._settings.agent.workspace, self._origin)
        if not parts.text and not parts.media:
            raise refusal("the prompt is empty; expected some words or a picture")
        reason = await _or_error(conversation.prompt(parts))
        # The turn may have written a skill, or a command changed the plugins.
        await self._announce_commands(conversation)
        return PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **_: Any) -> None:
        if (conversation := self._conversations.get(session_id)) is not None:
            await conversation.cancel()

    async def follow_commands(self) -> None:
        """Announce commands and skills of the open sessions whenever they change."""
        while True:
            await asyncio.sleep(_COMMANDS_INTERVAL_S)
            await self._announce_commands(*self._conversations.values())

    async def _announce_commands(self, *conversations: EditorConversation) -> None:
        """Announce commands and skills to the editor, which then knows the sessions.

        A task that `new_session` starts runs after its response has been written, because the
        library writes it without waiting.
        """
        for workspace in {conversation.workspace for conversation in conversations}:

            def read(service: Service, folder: Path = workspace) -> Awaitable[Commands]:
                return read_commands(service, folder)

            try:
                commands = await self._line.call(self._lane, read)
                for conversation in conversations:
                    if conversation.workspace == workspace:
                        await conversation.announce_commands(commands)
            except KoreError as exc:
                # The next prompt fails with the same error and reports it to the person.
                log.warning("commands cannot be listed: %s", exc)
            except ConnectionError:
                return  # The editor has disconnected.

    async def _choose(self, session: str, option: str, value: Any) -> SessionChoices:
        """Set an option and notify the editor, which may read modes or options."""
        conversation = self._conversation(session)
        try:
            if option == MODE:
                await _or_error(conversation.choose_mode(mode_of_value(value)))
            elif option == MODEL and isinstance(value, str):
                await _or_error(conversation.choose_model(value))
            else:
                raise ValueError(f"there is no option {option[:80]}; expected {MODEL} or {MODE}")
        except ValueError as exc:
            raise refusal(str(exc)) from None
        return await _or_error(conversation.announce_choices())

    def _conversation(self, session: str) -> EditorConversation:
        if (conversation := self._conversations.get(session)) is None:
            raise refusal(f"there is no open session {session[:80]}; load it first")
        return conversation

    async def _open(
        self, cwd: str, session: str | None, servers: list[Any] | None
    ) -> tuple[EditorConversation, SessionChoices]:
        folder = await asyncio.to_thread(_folder_of, cwd)
        assert self._client is not None, "connected before anything is asked"
        mode = self._options.mode if is_mode(self._options.mode) else None
        # The mode is stored with the session, so that the menu and `/mode` can change it.
        place = await asyncio.to_thread(self._place_of, folder)
        options = place.apply(replace(self._options, mode=None))
        project = project_context(place.workspace, (), self._settings, self._home)
        project.start_folder = folder
        commands = skill_catalog(self._home, self._settings).commands(place.workspace)
        builder = MessageBuilder(
            f"editor-{os.urandom(6).hex()}", options, project, commands=commands
        )
        offer = self._offer.fs or FileSystemCapabilities()
        files = FileRequests(self._client, EditorFolder(Path(cwd), folder), offer)
        questions = EditorQuestions(self._client, self._offer.elicitation)
        own_servers = EditorServers(servers or (), self._start)
        editor = ConnectedEditor(self._client, files, questions, own_servers)
        conversation = EditorConversation(self._line, editor, folder, place.workspace, builder)
        choices = await conversation.begin(session, mode)
        before = self._conversations.get(conversation.session)
        self._conversations[conversation.session] = conversation
        if before is not None:
            await before.end()
        return conversation, choices

    def _place_of(self, folder: Path) -> WorkingPlace:
        """Return the folder of an editor, with its repository if that is trusted."""
        self._origin.adopt(folder)
        return chosen_place(self._settings, self._home, folder)


def idle_lane() -> str:
    """Return a lane that is not used for messages."""
    return MessageBuilder(f"editor-{os.urandom(6).hex()}", MessageOptions()).lane


def _folder_path(folder: SessionFolder | None) -> str:
    return str(Path.cwd()) if folder is None else folder.path


def _folder_of(cwd: str) -> Path:
    folder = Path(cwd)
    if not folder.is_absolute() or not folder.is_dir():
        raise refusal(f"cwd: {cwd} is not a folder; expected its full path")
    return folder.resolve()


async def _or_error(call: Awaitable[T]) -> T:
    try:
        return await call
    except KoreError as exc:
        raise error_of(exc) from exc


async def serve(
    line: ServiceConnection, settings: "Settings", home: "DataDir", options: MessageOptions
) -> None:
    """Serve an editor until it closes the input."""
    async with task_scope() as start:
        start(_follow_owner(line))
        # Methods of optional features are missing here; the library answers them with protocol
        # errors.
        editor_agent = EditorAgent(line, settings, home, options, start)
        start(editor_agent.follow_commands())
        agent = cast("acp.Agent", editor_agent)
        # Closing a session is still unstable in the library.
        reader, writer = await acp.stdio_streams(limit=_LINE_BYTES)
        lines = EditorLines(reader, writer)
        await acp.run_agent(agent, lines, use_unstable_protocol=True)


async def _follow_owner(line: ServiceConnection) -> None:
    """Release the data on request: an editor may be idle for hours and must not block a gateway."""
    try:
        await line.follow_owner(idle_lane())
    except KoreError as exc:
        # The next prompt fails with the same error and reports it to the person.
        log.warning("the owner of the data was lost: %s", exc)
