"""Carries notes from the database, where a transaction has left them, entries of workers, and notes
of the command line into the audit log."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from agent.errors import KoreError
from agent.security.audit import AuditEntry
from gateway.ops.audit.pending import forget_notes, waiting_notes
from gateway.store.port import Store
from gateway.store.repositories import audit_outbox
from gateway.store.repositories.audit_outbox import AuditNote

log = logging.getLogger(__name__)

# So many are read, written with one fsync, and forgotten at once.
BATCH = 500


class EntryLog(Protocol):
    """Where entries end up; `gateway.ops.audit.log.AuditLog`."""

    def summarize(self, entry: AuditEntry) -> AuditEntry: ...

    async def append(self, entries: Sequence[AuditEntry]) -> None: ...


class AuditRelay:
    """One instance for a process: two would write the same notes. Without `audit` the owner of the
    data does it, in another process."""

    def __init__(self, database: Store, audit: EntryLog | None, pending: Path) -> None:
        self._database = database
        self._audit = audit
        self._pending = pending
        self._lock = asyncio.Lock()

    async def flush(self) -> None:
        """Returns once every note is on record; what cannot be recorded stays for the next time.

        A kill in between leaves a batch twice in the log, never in none.
        """
        audit = self._audit
        if audit is None:
            return
        async with self._lock:
            try:
                has_more = True
                while has_more:
                    rows = await self._database.transact(audit_outbox.waiting, BATCH)
                    if rows:
                        await audit.append([_entry(audit, one) for _, one in rows])
                        numbers = [number for number, _ in rows]
                        await self._database.transact(audit_outbox.forget, numbers)
                    has_more = len(rows) == BATCH
                while notes := await asyncio.to_thread(waiting_notes, self._pending):
                    await audit.append([_entry(audit, note) for note in notes])
                    await asyncio.to_thread(forget_notes, self._pending, len(notes))
            except (KoreError, OSError) as exc:
                log.error("audit entries are delayed: %s", exc)


def _entry(audit: EntryLog, one: AuditNote | AuditEntry) -> AuditEntry:
    """A worker has summarized its own."""
    return one if isinstance(one, AuditEntry) else audit.summarize(one.entry())
