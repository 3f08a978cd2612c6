"""Audit entries for changes that the owner makes outside conversations."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.errors import KoreError
from agent.records import frozen
from agent.security.audit import AuditSink
from gateway.core.caller import current_caller
from gateway.store.repositories.audit_outbox import AuditNote


@frozen
class OwnerAudit:
    """Records each change before it is made, and again when it fails. Entries never contain values,
    which may be secrets."""

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
            # The code only: the message may quote a value.
            reason = f"the change failed: {exc.code}"
            await self._record(AuditNote(time.time(), subject, reason, facts, allowed=False))
            raise

    async def _record(self, note: AuditNote) -> None:
        await self.sink.record(note.entry())
