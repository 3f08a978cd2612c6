"""Audit records of decisions about tool calls."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from agent.records import frozen

AuditLevel = Literal["none", "summary", "full"]


@frozen
class AuditEntry:
    """Record of one decision; `ts` is Unix time in seconds.

    `allowed` is the final outcome, including a person's answer; `reason` names the rule or the
    person. `params` are the arguments of the call that the audit level includes.
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
    """Destination of audit entries.

    Returns once the entry is safely stored; raises `KoreError` if it is not.
    """

    async def record(self, entry: AuditEntry) -> None: ...
