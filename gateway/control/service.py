"""The calls that a screen or a command can make on the process that owns the data.

This is the one place where a call is declared. `calls.py` reads name, arguments and result of each
method from its signature; the socket's client and server work from that table. Two classes
implement it: `local_service.LocalService` in the owner's own process, and `client.ControlClient`
over the socket. Callers cannot tell them apart.

Arguments and results are built from str, int, float, bool, None, `Literal`, `Path`, frozen
dataclasses, messages and events, and from sequences and mappings of them (see `codec.py`).
Every call may raise `KoreError`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

from agent.security.policy.base import Answer, PermissionMode, Scope
from agent.types import Message
from gateway.control.screen_calls import (
    FileCalls,
    PluginCalls,
    PolicyCalls,
    SettingsCalls,
    WorkbenchCalls,
)
from gateway.core.approval import ApprovalPrompt
from gateway.core.event_levels import Level
from gateway.core.messages import InboundMessage, Media
from gateway.core.records import (
    ApiAnswer,
    ApiRequest,
    ConsoleLease,
    EditorRequest,
    JobChange,
    MessageOutcome,
    ModelCall,
    NewJob,
    QueueMode,
    SearchHit,
    SessionEvent,
    SessionInfo,
    SessionNews,
    SessionPreview,
    SessionServer,
    TaskInfo,
    WatchEvent,
)


class MessageCalls(Protocol):
    """Talk on one lane."""

    async def submit(self, message: InboundMessage) -> None:
        """Store a message and queue it; returns once it is on disk."""
        ...

    def watch(
        self, lane: str, folder: str | None = None, after: int | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """Follow the events of a lane. Undelivered answers and open questions come first. With the
        project's `folder`, changes of its files between turns are among them. A client whose
        connection broke passes `after`, the `seq` of the last `delivered` event that it has: what
        was delivered into the broken connection comes again."""
        ...

    def follow_session(
        self, session: str, after: int = 0, kinds: tuple[str, ...] = (), level: Level = "debug"
    ) -> AbstractAsyncContextManager[AsyncIterator[SessionEvent]]:
        """Follow a session: its stored messages with a number above `after`, open questions, and
        the live events of its turns, whichever chat they are in. `kinds` are the types of live
        events that are wanted (none: all), `level` is the lowest level of them. A message takes the
        place of what streamed before it; a client that was away goes on with the `seq` of the last
        one that it has."""
        ...

    def follow_sessions(
        self,
        sessions: tuple[str, ...] = (),
        kinds: tuple[str, ...] = (),
        level: Level = "info",
    ) -> AbstractAsyncContextManager[AsyncIterator[SessionNews]]:
        """Follow several sessions (none: all) over one stream: the live events of their turns and
        `session_changed`, each with the session's id, of these `kinds` (none: all) and this
        `level` or above. There is no past in it: list the sessions once it is open."""
        ...

    async def send_message(
        self,
        session: str | None,
        text: str,
        event_id: str = "",
        mode: PermissionMode | None = None,
        media: tuple[Media, ...] = (),
        agent: str | None = None,
    ) -> str:
        """Say something in a session (None: a new one), and return the session's id once the
        message is on disk. A message with an `event_id` that was sent before is not taken twice;
        for a new session that needs `create_session` first. `agent` names who is to answer."""
        ...

    async def message_outcome(self, event_id: str) -> MessageOutcome:
        """What became of the message that was sent with this `event_id`."""
        ...

    async def store_picture(self, data: str, token: str = "") -> Media:
        """Keep a picture (PNG, JPEG, GIF or WebP, as base64) for `send_message`; with `token`
        among what belongs to this access token, which has a role."""
        ...

    async def list_commands(self) -> Sequence[Mapping[str, Any]]:
        """List what begins with a slash, chat commands and skills: `name`, `summary`."""
        ...

    async def create_session(self) -> str:
        """Begin a session; returns its id."""
        ...

    async def stop_session(self, session: str) -> bool:
        """Stop the turns that run in a session; False when none does."""
        ...

    async def answer_approval(
        self, nonce: str, answer: Answer, by: str, words: str = "", scope: Scope = "call"
    ) -> bool:
        """Answer an approval; False when it has expired or was answered already. `words` are told
        to the model with a denial; a lasting yes of `scope` prefix is about the event's prefix."""
        ...

    async def list_approvals(self) -> Sequence[ApprovalPrompt]:
        """List the open approvals, oldest first."""
        ...

    async def stop_turn(self, lane: str) -> bool:
        """Stop the turn that runs on the lane; False when none does."""
        ...


class SessionCalls(Protocol):
    """Read sessions and bind lanes to them. A session may be named by an unambiguous prefix."""

    async def open_console(self, session: str | None, fresh: bool) -> ConsoleLease:
        """Reserve a console lane that no other console watches, bound to `session`, to a new one
        (`fresh`), or to the lane's last one."""
        ...

    async def list_sessions(
        self, limit: int = 50, folder: str | None = None
    ) -> Sequence[SessionInfo]:
        """List sessions, last used first; with `folder` (its real path) those that worked there."""
        ...

    async def bound_session(self, lane: str) -> str | None:
        """Return the session that a lane is in; None until its next message begins one."""
        ...

    async def last_session(self, principal: str) -> str | None:
        """Return the open session that was used last."""
        ...

    async def preview_session(self, session: str, first: int, last: int) -> SessionPreview:
        """Return a session's first and last messages."""
        ...

    async def load_messages(self, session: str) -> Sequence[Message]:
        """Return all messages of a session."""
        ...

    async def queue_mode(self, lane: str) -> QueueMode:
        """Return how a message that arrives during a turn is handled on the lane."""
        ...

    async def conversation_status(self, lane: str) -> Mapping[str, Any]:
        """Return a lane's session, model, mode, waiting and cost_usd."""
        ...

    async def bind_session(self, lane: str, session: str | None) -> str:
        """Put a lane into a session (None: a new one); returns the session's id."""
        ...


class ArchiveCalls(Protocol):
    """Search and change whole sessions. A session may be named by an unambiguous prefix."""

    async def search_messages(self, words: str, limit: int = 20) -> Sequence[SearchHit]:
        """Find the newest messages with all these words. Fails for an encrypted database."""
        ...

    async def fork_session(self, session: str, last: int | None = None) -> str:
        """Copy a session into a new one, whole or up to message number `last` (0: none of it);
        returns its id. Fails between a call and its result."""
        ...

    async def rename_session(self, session: str, name: str) -> str:
        """Rename a session ('': back to its automatic name); returns a sentence."""
        ...

    async def set_session_status(
        self, session: str, status: Literal["open", "paused", "closed"]
    ) -> str:
        """Open, pause or close a session; returns a sentence. A running one cannot be closed."""
        ...


class TransferCalls(Protocol):
    """Sessions as files."""

    async def export_session(self, session: str) -> Sequence[str]:
        """Return a session as JSON lines, its metadata first."""
        ...

    async def import_session(self, file: Path) -> str:
        """Create a session from such a file, or from one of KodaX; returns its id."""
        ...


class OperationsCalls(Protocol):
    """Run the process."""

    async def status(self) -> Mapping[str, Any]:
        """Return what `kore status` shows: pid, version, model, channels, queues, and the `workers`
        that run turns for this process (None: it runs them itself)."""
        ...

    async def reload(self) -> Mapping[str, Any]:
        """Read the configuration again: the keys that are `changed`, and those `waiting` for a
        restart. On an error the previous settings stay."""
        ...

    async def hand_over(self, successor: str) -> Sequence[str] | None:
        """Release the data to a gateway that starts, at the next step of what runs. None: this
        owner keeps it. Else the lanes of one-shot runs that wait for the successor."""
        ...

    async def replay(self, seq: int) -> str:
        """Queue a dead or finished inbox row again; returns a sentence."""
        ...

    async def backup(self, target: Path) -> int:
        """Copy the database to a new file; returns its size in bytes."""
        ...


class PersonalDataCalls(Protocol):
    """The data stored about one person."""

    async def summarize_person(self, principal: str) -> Mapping[str, Any]:
        """Count a person's data."""
        ...

    async def export_person(self, principal: str, target: Path) -> Mapping[str, Any]:
        """Export a person's data to a new zip file: `file`, `size_bytes`."""
        ...

    async def delete_person(self, principal: str, copies: bool) -> Mapping[str, Any]:
        """Delete a person's data, with `copies` also from the copies that upgrades made; returns
        what there was and which copies remain."""
        ...


class PairingCalls(Protocol):
    """Who may write to Kore."""

    async def list_people(self) -> Mapping[str, Any]:
        """Return the `owner`, who is `asking` and who is `paired`; never a code."""
        ...

    async def approve_pairing(self, code: str) -> str:
        """Approve the person who was sent the code; returns a sentence."""
        ...

    async def invite_owner(self, channel: str, account: str) -> str:
        """Return a code, valid for one hour; the first to send `/start CODE` becomes the owner.
        Fails when there is an owner."""
        ...

    async def revoke_pairing(self, who: str) -> str:
        """Revoke a person's access; returns a sentence."""
        ...


class GrantCalls(Protocol):
    """Standing approvals."""

    async def list_grants(self) -> Sequence[Mapping[str, Any]]:
        """List the grants, oldest first: id, principal, session ('' for all), title, folder,
        granted_by, granted_at."""
        ...

    async def revoke_grants(self, grant: int | None) -> str:
        """Revoke one grant, or all; returns a sentence."""
        ...


class JobCalls(Protocol):
    """Scheduled jobs."""

    async def list_jobs(self) -> Sequence[Mapping[str, Any]]:
        """List all jobs with their latest slots, as `gateway.scheduler.job_text.facts`."""
        ...

    async def add_job(self, job: NewJob) -> str:
        """Schedule a reminder or a task; returns a sentence."""
        ...

    async def change_job(self, number: int, change: JobChange) -> str:
        """Remove, pause, resume or run a job; returns a sentence."""
        ...


class ModelCalls(Protocol):
    """Who can answer."""

    async def list_agents(self) -> Sequence[Mapping[str, Any]]:
        """List the agents of the workspace: `name`, `description`."""
        ...

    async def list_models(self) -> Sequence[Mapping[str, Any]]:
        """List the configured models and the profiles: `name`, `model` (vendor/model, None when
        it cannot be used), `profile` (whether the name is a profile's), `default` (whether it
        answers where none is chosen)."""
        ...

    def call_model(
        self, call: ModelCall
    ) -> AbstractAsyncContextManager[AsyncIterator[Mapping[str, Any]]]:
        """Call a model without Kore's agent: its events (`text_delta`, `thinking_delta`,
        `tool_call_delta`, `retry`, `notice`), and in the end `reply` with `message`, `usage` and
        `finish_reason`. What it costs counts for the limits."""
        ...


class ApiAnswerCalls(Protocol):
    """Answers over the OpenAI-compatible API; each token has its own."""

    async def begin_api_answer(self, request: ApiRequest) -> ApiAnswer | None:
        """Record a request, or find the earlier one with its key, with its answer if that was
        given. None when the key was used for a different request."""
        ...

    async def keep_api_answer(self, answer: ApiAnswer) -> bool:
        """Store an answer before its end is sent; False when another one was given for its key.
        Answers expire after 30 days; each token has at most its 1,000 newest."""
        ...

    async def find_api_answer(self, token: str, answer_id: str) -> ApiAnswer | None:
        """Return the answer with this id that this token was given, with its conversation; None
        when there is none, or it is not stored any more."""
        ...


class ChoiceCalls(Protocol):
    """Choose how a session is answered from its next turn on. A session may be named by an
    unambiguous prefix."""

    async def choose_model(self, session: str, model: str) -> None:
        """Choose the model that answers: a configured one, a profile's name, or vendor/model."""
        ...

    async def choose_mode(self, session: str, mode: PermissionMode) -> None:
        """Choose the permission mode; a looser one is noted in the audit log."""
        ...


class EditorCalls(Protocol):
    """An editor shows files to the turns of its lane, and names MCP servers for them."""

    def serve_editor(
        self, lane: str, can_read: bool, can_write: bool
    ) -> AbstractAsyncContextManager[AsyncIterator[EditorRequest]]:
        """Follow what the lane's turns ask of the editor, each to be answered within seconds.
        Only files of the turn's folder that its tools may open are asked for."""
        ...

    async def answer_editor(self, request: str, text: str | None) -> bool:
        """Answer a request: with the text of a file, '' once one is written, None when it cannot
        be done. False when nobody waits for it any more."""
        ...

    def attach_servers(
        self, lane: str, servers: tuple[SessionServer, ...]
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[str]]]:
        """Give MCP servers to the lane's turns, as long as this is followed: they are in no
        configuration, and end with it. Once all have been asked for their tools (or 10 seconds have
        passed), a sentence about each that failed follows."""
        ...


class AttachmentCalls(Protocol):
    """Files that go along with messages, in parts of at most 1 MB (as base64)."""

    async def begin_upload(self, name: str, size_bytes: int) -> str:
        """Begin to send a file for `send_message`; returns the id of the upload. Fails for one that
        is larger than `media.max_file_mb`."""
        ...

    async def continue_upload(self, upload: str, offset: int, data: str) -> Media | None:
        """Add the next part; the file, once it is whole. Parts come in order, and may be sent
        again. An upload that nothing comes for, or whose process has ended, is `unknown-upload`."""
        ...

    async def read_sent_file(
        self, session: str, seq: int, call: str, number: int, offset: int = 0
    ) -> Mapping[str, Any]:
        """Return a part of a file that `send_file` sent: file `number` (from 0) of the call `call`
        of message `seq`: `name`, `size`, `version`, `data`. It is read as it is now."""
        ...


class TaskCalls(Protocol):
    """What goes on beside a conversation: commands in the background and sub-agents."""

    async def background_tasks(self, session: str) -> Sequence[str]:
        """List the names of a session's background processes and sub-agents."""
        ...

    async def list_tasks(self, session: str) -> Sequence[TaskInfo]:
        """List them with how they are: those that run first, then the latest that have ended."""
        ...

    async def read_task(self, session: str, task: str, position: int = 0) -> Mapping[str, Any]:
        """Return what a command has printed behind a position (bytes): `text`, `begin` (later than
        `position` where the beginning is not kept any more), `end`. A sub-agent's steps are in its
        own session (`follow_session`)."""
        ...

    async def stop_task(self, session: str, task: str) -> str:
        """Stop a command with all that it started, or a sub-agent; returns a sentence."""
        ...


class TerminalCalls(Protocol):
    """Shells of the owner, as `server.terminal` allows them. They end with this process."""

    async def terminal_status(self) -> Mapping[str, Any]:
        """Return the `mode` ("off", "sandbox", "full"), the `user` that shells run as without a
        sandbox, and the `terminals`: `id`, `folder`, `started_at`, `exit_code` (None: it runs)."""
        ...

    async def open_terminal(
        self, place: str | None = None, columns: int = 80, rows: int = 24
    ) -> str:
        """Start a shell in one of `list_places` (None: the workspace); returns the terminal's id.
        Nobody follows it for ten minutes: it ends."""
        ...

    def follow_terminal(
        self, terminal: str
    ) -> AbstractAsyncContextManager[AsyncIterator[Mapping[str, Any]]]:
        """Follow a terminal: its latest output (`screen`, with `columns` and `rows`), then each
        `output`, and in the end the `exit_code`. A client that is too slow gets a `screen` again.
        A program whose output nobody takes in waits."""
        ...

    async def write_terminal(self, terminal: str, text: str) -> None:
        """Type in a terminal."""
        ...

    async def resize_terminal(self, terminal: str, columns: int, rows: int) -> None:
        """Tell the programs in a terminal how large it is."""
        ...

    async def close_terminal(self, terminal: str) -> None:
        """Kill a terminal's shell with all that it started, and forget its output."""
        ...


class Service(
    MessageCalls,
    SessionCalls,
    ArchiveCalls,
    TransferCalls,
    OperationsCalls,
    PersonalDataCalls,
    PairingCalls,
    GrantCalls,
    JobCalls,
    ModelCalls,
    ApiAnswerCalls,
    ChoiceCalls,
    EditorCalls,
    WorkbenchCalls,
    FileCalls,
    PluginCalls,
    PolicyCalls,
    SettingsCalls,
    AttachmentCalls,
    TaskCalls,
    TerminalCalls,
    Protocol,
):
    """All calls."""
