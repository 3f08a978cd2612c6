"""Audit entries of processes that do not own the data, carried by the database.

The chain has a single writer. An entry is stored before its call begins, and the owner of the data
writes it to the log soon afterwards (`AuditRelay`).
"""

from collections.abc import Callable
from dataclasses import replace

from agent.i18n import t
from agent.security.audit import AuditEntry, AuditLevel
from agent.serialization import dumps
from gateway.ops.audit.argument_summary import summarize
from gateway.ops.audit.trail import AuditError, fields_of
from gateway.store.port import Store, Transaction
from gateway.store.repositories import audit_outbox


class StoredAuditSink:
    """Implementation of `agent.security.audit.AuditSink`.

    `level` and `clean` are those of `AuditLog`. `notify` tells the owner of the data about a new
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
            text = dumps(fields_of(summary))
        except (ValueError, RecursionError) as exc:
            raise AuditError(t("the audit entry cannot be written: {reason}", reason=exc)) from exc
        await self._database.transact(self._put, summary, text)

    def _put(self, tx: Transaction, entry: AuditEntry, text: str) -> None:
        audit_outbox.put_entry(tx, entry, text)
        tx.after_commit(self._notify)
