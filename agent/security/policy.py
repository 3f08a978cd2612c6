"""One decision per tool call: allow, ask or deny, with a reason and the rule that said so."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from agent.types import Effect

Verdict = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call as the policy judges it: what it is, and what it said it is about to do."""

    tool: str
    effect: Effect
    arguments: Mapping[str, Any]
    workspace: Path
    changes: tuple[Path, ...] = ()
    creates: tuple[Path, ...] = ()
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: str
    rule: str


class Policy(Protocol):
    def decide(self, request: ToolRequest) -> Decision: ...


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question to a person. `diff` or `command` shows exactly what would happen."""

    tool: str
    arguments: Mapping[str, Any]
    reason: str
    command: str | None = None
    diff: str | None = None


Answer = Literal["once", "session", "deny"]


class Approver(Protocol):
    async def ask(self, request: ApprovalRequest) -> Answer: ...
