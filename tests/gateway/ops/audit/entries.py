"""Audit entries for tests."""

from typing import Any

from agent.security.audit import AuditEntry
from gateway.ops.audit.log import AuditLog


def entry(name: str = "x", **more: Any) -> AuditEntry:
    fields: dict[str, Any] = {
        "ts": 1_800_000_000.25,
        "agent_id": "main",
        "role": "build",
        "tool": "read_file",
        "allowed": True,
        "reason": "within the workspace",
        "params": {"path": f"notes/{name}.md"},
        "session_id": "20260101_000000",
    }
    return AuditEntry(**{**fields, **more})


async def write(log: AuditLog, count: int) -> None:
    for n in range(count):
        await log.record(entry(str(n)))
