"""Transfer of notes into the audit log.

Transactions and workers leave notes in the database, the command line in a file.
"""

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

# Notes that are read, written with one fsync, and deleted together.
BATCH = 500


class EntryLog(Protocol):
    """Destination of entries, implemented by `gateway.ops.audit.log.AuditLog`."""

    def summarize(self, entry: AuditEntry) -> AuditEntry: ...

    async def append(self, entries: Sequence[AuditEntry]) -> None: ...


class AuditRelay:
    """Relay of a process; two would write the same notes.

    Without `audit` the owner of the data relays them in another process.
    """

    def __init__(self, database: Store, audit: EntryLog | None, pending: Path) -> None:
        self._database = database
        self._audit = audit
        self._pending = pending
        self._lock = asyncio.Lock()

    async def flush(self) -> None:
        """Write every note to the log; notes that cannot be written stay for the next call.

        A kill leaves a batch in the log twice rather than losing it.
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
                        await audit.append([_entry(audit, item) for _, item in rows])
                        numbers = [number for number, _ in rows]
                        await self._database.transact(audit_outbox.forget, numbers)
                    has_more = len(rows) == BATCH
                while notes := await asyncio.to_thread(waiting_notes, self._pending):
                    await audit.append([_entry(audit, note) for note in notes])
                    await asyncio.to_thread(forget_notes, self._pending, len(notes))
            except (KoreError, OSError) as exc:
                log.error("audit entries are delayed: %s", exc)


def _entry(audit: EntryLog, note: AuditNote | AuditEntry) -> AuditEntry:
    """Return the log entry of a note; workers have summarized theirs."""
    return note if isinstance(note, AuditEntry) else audit.summarize(note.entry())
