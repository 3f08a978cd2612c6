"""Carries notes from the database, where a transaction has left them, into the audit log."""

import asyncio
import logging

from agent.errors import KoreError
from agent.security.audit import AuditSink
from gateway.store.port import Store
from gateway.store.repositories import audit_outbox

log = logging.getLogger(__name__)


class AuditRelay:
    """One instance for a process: two would write the same notes."""

    def __init__(self, database: Store, audit: AuditSink) -> None:
        self._database = database
        self._audit = audit
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
            except KoreError as exc:
                log.error("audit entries are delayed: %s", exc)
