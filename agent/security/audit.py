"""The record of what was decided: one entry for each decision about a tool call."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from agent.records import frozen

AuditLevel = Literal["none", "summary", "full"]


@frozen
class AuditEntry:
    """One decision; `ts` is Unix time in seconds.

    `allowed` is what came of it, after a person was asked too; `reason` names the rule or the
    person. `params` are the call's arguments, as far as the audit level wants them kept.
    """

    ts: float
    agent_id: str
    role: str
    tool: str
    allowed: bool
    reason: str
    params: Mapping[str, Any]
    session_id: str


class AuditSink(Protocol):
    """Keeps entries. Returns once the entry is safe; raises `KoreError` when it is not."""

    async def record(self, entry: AuditEntry) -> None: ...
