"""Audit entries are written before the calls begin."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.approvals import Answer, ApprovalRequest
from agent.errors import KoreError
from agent.security.audit import AuditEntry
from agent.security.policy.base import Decision, ToolRequest
from agent.security.policy.engine import DefaultPolicy
from agent.tools.base import CallContext
from agent.tools.runner import Permissions
from agent.types import ToolResult
from tests.agent.props import Handmade, call, calls, results, scripted


class Record:
    def __init__(self, *, broken: bool = False) -> None:
        self.entries: list[AuditEntry] = []
        self._broken = broken

    async def record(self, entry: AuditEntry) -> None:
        if self._broken:
            raise KoreError("the record is full")
        self.entries.append(entry)


class Person:
    def __init__(self, answer: Answer | KoreError) -> None:
        self._answer = answer

    async def ask(self, request: ApprovalRequest) -> Answer:
        if isinstance(self._answer, KoreError):
            raise self._answer
        return self._answer


class Never:
    def decide(self, request: ToolRequest) -> Decision:
        return Decision("deny", "nothing here", "never")


async def run(folder: Path, permissions: Permissions) -> tuple[str, int]:
    """Return the result of one unsafe call, and the number of audit entries at its start."""
    seen: list[int] = []

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        assert isinstance(permissions.audit, Record)
        seen.append(len(permissions.audit.entries))
        return ToolResult("done")

    tool = Handmade("act", body, "unsafe")
    planned = [calls(call("act", path="a.txt")), "bye"]
    agent, _ = scripted(planned, folder, tool, permissions=permissions)
    result = await agent.run("go", session="s7")
    (text,) = results(result.messages)
    return text, sum(seen)


async def test_allowed_call_is_recorded_before_it_begins(tmp_path: Path) -> None:
    record = Record()
    policy = DefaultPolicy("auto")
    permissions = Permissions(policy, audit=record, role="writer", agent_id="helper")
    assert await run(tmp_path, permissions) == ("done", 1)
    (entry,) = record.entries
    assert (entry.tool, entry.allowed, entry.params) == ("act", True, {"path": "a.txt"})
    assert (entry.role, entry.agent_id, entry.session_id) == ("writer", "helper", "s7")
    assert entry.reason.endswith("(auto)")


@pytest.mark.parametrize(
    ("answer", "allowed", "told"),
    [
        ("once", True, "asked, and the answer was once"),
        ("always", True, "asked, and the answer was always"),
        ("deny", False, "asked, and the answer was no"),
        (KoreError("nobody came"), False, "nobody came"),
        (None, False, "there was nobody to ask"),
    ],
)
async def test_approval_is_recorded_with_its_answer(
    tmp_path: Path, answer: Answer | KoreError | None, allowed: bool, told: str
) -> None:
    record = Record()
    person = Person(answer) if answer is not None else None
    text, begun = await run(tmp_path, Permissions(DefaultPolicy(), person, record))
    (entry,) = record.entries
    assert (entry.allowed, begun) == (allowed, int(allowed))
    assert entry.reason.endswith(f"(ask-unplanned); {told}")
    assert (text == "done") == allowed


async def test_denied_call_is_recorded_with_its_rule(tmp_path: Path) -> None:
    record = Record()
    text, begun = await run(tmp_path, Permissions(Never(), audit=record))
    (entry,) = record.entries
    assert (entry.allowed, begun) == (False, 0)
    assert entry.reason == "nothing here (never)"
    assert text.startswith("Not allowed: ")


async def test_tool_does_not_run_if_the_audit_record_fails(tmp_path: Path) -> None:
    broken = Permissions(DefaultPolicy("auto"), audit=Record(broken=True))
    assert await run(tmp_path, broken) == ("Not allowed: the record is full", 0)
    denied = Permissions(Never(), audit=Record(broken=True))
    text, begun = await run(tmp_path, denied)
    assert (text.startswith("Not allowed: "), begun) == (True, 0)
