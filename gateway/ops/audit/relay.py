"""Carries notes from the database, where a transaction has left them, and from the command line
into the audit log."""

import asyncio
import logging
from pathlib import Path

from agent.errors import KoreError
from agent.security.audit import AuditSink
from gateway.ops.audit.pending import forget_notes, waiting_notes
from gateway.store.port import Store
from gateway.store.repositories import audit_outbox

log = logging.getLogger(__name__)


class AuditRelay:
    """One instance for a process: two would write the same notes."""

    def __init__(self, database: Store, audit: AuditSink, pending: Path) -> None:
        self._database = database
        self._audit = audit
        self._pending = pending
        self._lock = asyncio.Lock()

    async def flush(self) -> None:
        """Returns once every note is on record; what cannot be recorded stays for the next time.

        A kill in between leaves a note twice in the log, never in none.
        """
        async with self._lock:
            try:
                for number, note in await self._database.transact(audit_outbox.waiting):
                    await self._audit.record(note.entry())
                    await self._database.transact(audit_outbox.forget, number)
                for note in await asyncio.to_thread(waiting_notes, self._pending):
                    await self._audit.record(note.entry())
                    await asyncio.to_thread(forget_notes, self._pending, 1)
            except (KoreError, OSError) as exc:
                log.error("audit entries are delayed: %s", exc)
