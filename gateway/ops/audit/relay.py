"""Transfer of notes into the audit log, whose chain has a single writer.

Transactions and workers leave notes in the database, the command line in a file. An entry of a
worker is stored before its call begins (`StoredAuditSink`), and the owner of the data writes it to
the log soon afterwards (`AuditRelay`).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Protocol

from agent.errors import KoreError
from agent.i18n import t
from agent.security.audit import AuditEntry, AuditLevel
from agent.serialization import dumps
from gateway.ops.audit.argument_summary import summarize
from gateway.ops.audit.pending import forget_notes, waiting_notes
from gateway.ops.audit.trail import AuditError
from gateway.store.port import Store, Transaction
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


class StoredAuditSink:
    """Implementation of `agent.security.audit.AuditSink` in a process that does not own the data.

    `level` and `clean` are as in `AuditLog`. `notify` informs the owner of the data about a new
    entry; it is called on the event loop and must not fail. `worker` names this process in the
    entries: "main" becomes "main@worker".
    """

    def __init__(
        self,
        database: Store,
        notify: Callable[[], None],
        *,
        worker: str,
        level: Callable[[], AuditLevel] = lambda: "summary",
        clean: Callable[[str], str] = str,
    ) -> None:
        self._database = database
        self._notify = notify
        self._worker = worker
        self._level = level
        self._clean = clean

    async def record(self, entry: AuditEntry) -> None:
        """Store an entry. Raises `AuditError` if it cannot be written, and `StoreError`."""
        level = self._level()
        if level == "none":
            return
        entry = replace(entry, agent_id=f"{entry.agent_id}@{self._worker}")
        summary = summarize(entry, level, self._clean)
        try:
            text = dumps(asdict(summary))
        except (ValueError, RecursionError) as exc:
            raise AuditError(t("the audit entry cannot be written: {reason}", reason=exc)) from exc
        await self._database.transact(self._put, summary, text)

    def _put(self, tx: Transaction, entry: AuditEntry, text: str) -> None:
        audit_outbox.put_entry(tx, entry, text)
        tx.after_commit(self._notify)
