"""Parts of the process that calls work on, and the audit of the owner's changes."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from agent.agent import Agent
from agent.errors import KoreError
from agent.records import frozen
from agent.security.audit import AuditSink
from agent.security.policy.base import PermissionMode
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.pairing_service import PairingService
from gateway.bus.bus import MessageBus
from gateway.control.handover import Handover
from gateway.control.runtime_status import RuntimeStatus
from gateway.core.caller import current_caller
from gateway.core.event_hub import EventHub
from gateway.core.records import SessionChanged
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.delivery.user_language import UserLanguages
from gateway.media.uploads import Uploads
from gateway.ops.audit.relay import AuditRelay
from gateway.ops.config_reload import ConfigReloader
from gateway.ops.screens import ScreenData
from gateway.scheduler.service import JobService
from gateway.sessions import lookup
from gateway.sessions.background_work import BackgroundWork
from gateway.sessions.editor_hub import EditorHub
from gateway.sessions.project_feed import ProjectFeed
from gateway.sessions.sent_files import SentFiles
from gateway.sessions.service import SessionService
from gateway.store.port import Store
from gateway.store.repositories.audit_outbox import AuditNote
from gateway.terminals.registry import TerminalRegistry
from gateway.turns.usage.model_caller import ModelCaller
from gateway.turns.usage.turn_log import TurnLog

if TYPE_CHECKING:
    from gateway.ops.user_data import UserDataService


MAX_FETCHES = 2
_RESERVATION_TIMEOUT_S = 30.0


@frozen
class OwnerAudit:
    """Audit that records each change before it is made, and again if it fails.

    Entries never contain values, which may be secrets.
    """

    sink: AuditSink

    @asynccontextmanager
    async def change(self, subject: str, operation: str, **params: str) -> AsyncIterator[None]:
        """Record a change around the code that makes it. Raises `KoreError` when the change cannot
        be recorded; it must not be made then."""
        facts = {"who": current_caller(), "operation": operation, **params}
        await self._record(AuditNote(time.time(), subject, "changed by the owner", facts))
        try:
            yield
        except KoreError as exc:
            # Only the code, because the message may quote a value.
            reason = f"the change failed: {exc.code}"
            await self._record(AuditNote(time.time(), subject, reason, facts, allowed=False))
            raise

    async def _record(self, note: AuditNote) -> None:
        await self.sink.record(note.entry())


class ConsoleReservations:
    """Console lanes given to a console that does not watch its lane yet."""

    def __init__(self) -> None:
        self._reserved_until: dict[str, float] = {}

    def is_reserved(self, lane: str) -> bool:
        return self._reserved_until.get(lane, 0) > time.monotonic()

    def reserve(self, lane: str) -> None:
        self._reserved_until[lane] = time.monotonic() + _RESERVATION_TIMEOUT_S

    def release(self, lane: str) -> None:
        with suppress(KeyError):
            del self._reserved_until[lane]


@frozen
class ServiceContext:
    """Collaborators of the calls in the process that owns the data.

    `handover` is None in a gateway, which keeps the data; `reloader` is None in a terminal, which
    reads the configuration only when it starts. `screens` opens data on demand.
    """

    agent: Agent[Any]
    approvals: ApprovalCoordinator
    audit_relay: AuditRelay
    background: BackgroundWork
    bus: MessageBus
    console_reservations: ConsoleReservations
    database: Store
    default_mode: Callable[[str], PermissionMode]
    editors: EditorHub
    events: EventHub
    feed: ProjectFeed
    handover: Handover | None
    jobs: JobService
    languages: UserLanguages
    model_calls: ModelCaller
    owner_audit: OwnerAudit
    pairing: PairingService
    # Each fetch of a plugin occupies a thread for minutes, even after its caller has left.
    plugin_fetches: BoundedSemaphore
    reloader: ConfigReloader | None
    renderer: ReplyRenderer
    screens: ScreenData
    sender: OutboxSender
    sent_files: SentFiles
    sessions: SessionService
    status: RuntimeStatus
    terminals: TerminalRegistry
    turn_log: TurnLog
    uploads: Uploads
    user_data: "Callable[[], UserDataService]"
    workers: Callable[[], Awaitable[Mapping[str, Any] | None]]

    async def find_session(self, prefix: str) -> str:
        """Return the id of the session that the prefix names.

        Raises `KoreError` if it matches none or several.
        """
        return await self.database.transact(lookup.find, prefix)

    def announce(self, session: str) -> None:
        """Notify followers of several sessions that this one is new or has changed in the list."""
        self.events.announce(session, SessionChanged())
