"""What the owner changes outside of conversations, on its way into the audit log."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.errors import KoreError
from agent.security.audit import AuditSink
from gateway.core.caller import current_caller
from gateway.store.repositories.audit_outbox import AuditNote


class OwnerAudit:
    """Records changes before they are made, and once more when they fail. Values are not for it:
    they may be secrets."""

    def __init__(self, audit: AuditSink) -> None:
        self._audit = audit

    @asynccontextmanager
    async def change(self, what: str, operation: str, **params: str) -> AsyncIterator[None]:
        """Around a change. Raises `KoreError` when it cannot be recorded: then it must not be
        made."""
        facts = {"who": current_caller(), "operation": operation, **params}
        await self._record(AuditNote(time.time(), what, "changed by the owner", facts))
        try:
            yield
        except KoreError as exc:
            # The message may quote a value.
            reason = f"the change failed: {exc.code}"
            await self._record(AuditNote(time.time(), what, reason, facts, allowed=False))
            raise

    async def _record(self, note: AuditNote) -> None:
        await self._audit.record(note.entry())
