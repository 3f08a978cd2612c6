"""What a screen or a verb may ask of the process that owns the data.

Two implementations stand behind these ports: `desk.Desk`, in the owner's own process, and
`client.Client`, which reaches it over the control socket. Callers cannot tell them apart.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

from agent.security.policy.base import Answer
from agent.types import Message
from gateway.core.approval import ApprovalPrompt
from gateway.core.messages import InboundMessage
from gateway.core.records import (
    ConsoleLease,
    QueueMode,
    SearchHit,
    SessionInfo,
    SessionPreview,
    WatchEvent,
)


class JobCalls(Protocol):
    """What comes due by itself."""

    async def list_jobs(self) -> Sequence[Mapping[str, Any]]:
        """All jobs with their latest slots, as `gateway.scheduler.job_text.facts` tells them."""
        ...

    async def change_job(self, action: str, wanted: Mapping[str, Any]) -> str:
        """`add` or `ask` (key, when, text, and what the flags say), or `remove`, `pause`, `resume`
        or `run` a `number`; returns a sentence. Raises `KoreError`."""
        ...


class MessageCalls(Protocol):
    """A conversation on one lane."""

    async def submit(self, message: InboundMessage) -> None:
        """Returns once the message is on disk."""
        ...

    def watch(self, lane: str) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """What happens on a lane from now on; what still waits for delivery there, and the
        questions that are open there, come first."""
        ...

    async def answer_approval(self, nonce: str, answer: Answer, by: str) -> bool:
        """Answer an approval; False when it has expired or was answered already."""
        ...

    async def list_approvals(self) -> Sequence[ApprovalPrompt]:
        """The approvals that somebody is asked for now, oldest first."""
        ...

    async def stop_turn(self, lane: str) -> bool:
        """Stop the turn that runs on the lane; False when none does."""
        ...


class SessionCalls(Protocol):
    """What is stored."""

    async def open_console(self, session: str | None, fresh: bool) -> ConsoleLease:
        """A console lane that no other console watches, bound to `session`, to a new one
        (`fresh`), or to the lane's last one. Raises `KoreError` for an unknown session."""
        ...

    async def list_sessions(self, limit: int = 50) -> Sequence[SessionInfo]: ...

    async def bound_session(self, lane: str) -> str | None:
        """The session that a lane is in; None until its next message begins one."""
        ...

    async def last_session(self, principal: str) -> str | None:
        """The session that somebody used last and has not closed."""
        ...

    async def preview_session(self, session: str, first: int, last: int) -> SessionPreview:
        """A session's first and last words, also of an unambiguous prefix. Raises `KoreError`."""
        ...

    async def load_messages(self, session: str) -> Sequence[Message]:
        """The whole session, or that of an unambiguous prefix. Raises `KoreError`."""
        ...

    async def queue_mode(self, lane: str) -> QueueMode:
        """What becomes of a message that is sent on the lane while a turn runs there."""
        ...

    async def conversation_status(self, lane: str) -> Mapping[str, Any]:
        """How a lane's conversation stands: session, model, mode, waiting, cost_usd (see
        `gateway.sessions.service`)."""
        ...

    async def background_tasks(self, session: str) -> Sequence[str]:
        """What runs in the background of a session, as people call it."""
        ...

    async def bind_session(self, lane: str, session: str | None) -> str:
        """Put a lane into a session (None: a new one); returns the session's id."""
        ...


class ArchiveCalls(Protocol):
    """What is done with whole conversations. All raise `KoreError` for an unknown session, which
    may be named by an unambiguous prefix."""

    async def search_messages(self, words: str, limit: int = 20) -> Sequence[SearchHit]:
        """The newest messages with all these words. Raises `KoreError` for a sealed database."""
        ...

    async def fork_session(self, session: str) -> str:
        """A new session that begins with all of this one; returns its id."""
        ...

    async def rename_session(self, session: str, name: str) -> str:
        """'' gives it its automatic name back; returns a sentence."""
        ...

    async def set_session_status(
        self, session: str, status: Literal["open", "paused", "closed"]
    ) -> str:
        """Returns a sentence. A session at work cannot be closed."""
        ...


class TransferCalls(Protocol):
    """Conversations in files."""

    async def export_session(self, session: str) -> Sequence[str]:
        """The whole session as JSON lines, the first with its facts."""
        ...

    async def import_session(self, file: Path) -> str:
        """A new session made of such a file, or of KodaX's; returns its id. Raises `KoreError`."""
        ...


class OperationsCalls(Protocol):
    """Running the place."""

    async def status(self) -> Mapping[str, Any]:
        """Facts for `kore status`: pid, version, model, channels and their states, queues."""
        ...

    async def reload(self) -> Mapping[str, Any]:
        """Read the configuration again; the keys that `changed`, and those that are `waiting` for a
        restart. Raises `KoreError`; then the last good one holds."""
        ...

    async def hand_over(self, successor: str) -> Sequence[str] | None:
        """Let go of the data for a gateway that starts, as soon as what runs rests at a step. None:
        this owner keeps it. Else the lanes of one-shot runs that wait for the successor."""
        ...

    async def replay(self, seq: int) -> str:
        """Queue a dead or finished inbox row again; returns a sentence. Raises `KoreError`."""
        ...

    async def backup(self, target: Path) -> int:
        """Copy the database to a new file; returns its size in bytes. Raises `KoreError`."""
        ...


class PersonalDataCalls(Protocol):
    """What is kept of one person."""

    async def summarize_person(self, principal: str) -> Mapping[str, Any]:
        """How much there is. Raises `KoreError` for what is nobody's id."""
        ...

    async def export_person(self, principal: str, target: Path) -> Mapping[str, Any]:
        """All of it in a new zip file: `file`, `size_bytes`. Raises `KoreError`."""
        ...

    async def delete_person(self, principal: str, copies: bool) -> Mapping[str, Any]:
        """Do away with it, with `copies` also with those of upgrades; what there was, and which
        copies remain. Raises `KoreError`."""
        ...


class PairingCalls(Protocol):
    """Who may write to Kore."""

    async def list_people(self) -> Mapping[str, Any]:
        """`owner`, `asking` and `paired`; never a code."""
        ...

    async def approve_pairing(self, code: str) -> str:
        """Let in whom the code was sent to; returns a sentence. Raises `KoreError`."""
        ...

    async def invite_owner(self, channel: str, account: str) -> str:
        """A code that makes the first one who sends `/start CODE` there the owner, within an hour.
        Raises `KoreError` when there is an owner."""
        ...

    async def revoke_pairing(self, who: str) -> str:
        """Take somebody out; returns a sentence. Raises `KoreError`."""
        ...


class GrantCalls(Protocol):
    """What people allowed for longer than once."""

    async def list_grants(self) -> Sequence[Mapping[str, Any]]:
        """Oldest first: id, principal, session ('' for all), title, folder, granted_by,
        granted_at."""
        ...

    async def revoke_grants(self, grant: int | None) -> str:
        """Take back one, or all; returns a sentence. Raises `KoreError` for an unknown one."""
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
    Protocol,
):
    """All of it."""
