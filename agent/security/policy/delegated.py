"""Permissions of sub-agents: the caller's, limited by a mode."""

from dataclasses import replace

from agent.approvals import Answer, ApprovalRequest
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.policy.base import (
    Answered,
    Approver,
    Decision,
    LimitsHosts,
    LimitsPaths,
    LimitsWriting,
    PermissionMode,
    Policy,
    ToolRequest,
    tightest_of,
)
from agent.security.policy.full_access import FULL_ACCESS


@frozen
class DelegatedPolicy:
    """A policy combined with the decision of `mode`; the stricter one counts.

    Full access needs no approval, and only `plan` denies changes.
    """

    policy: Policy
    mode: PermissionMode

    def decide(self, request: ToolRequest) -> Decision:
        from agent.security.policy.call_effects import call_effects
        from agent.security.policy.engine import evaluate_mode

        decision = self.policy.decide(request)
        if decision == FULL_ACCESS and self.mode != "plan":
            return decision
        # The policy judges channel and sandbox, so only the mode counts here.
        mode_decision = evaluate_mode(self.mode, call_effects(request), "local", confined=True)
        if decision == FULL_ACCESS and mode_decision.verdict == "ask":
            return decision
        if mode_decision.verdict == "deny":
            # The mode's own reason refers to the conversation's mode, which a person can change.
            mode_decision = replace(
                mode_decision, reason=render_prompt("policy/agent_mode", mode=self.mode)
            )
        return tightest_of([decision, mode_decision])

    def hosts(self, tool: str, governed_by: str | None = None) -> tuple[str, ...] | None:
        return (
            self.policy.hosts(tool, governed_by) if isinstance(self.policy, LimitsHosts) else None
        )

    def paths(self, tool: str, governed_by: str | None = None) -> tuple[tuple[str, ...], ...]:
        return self.policy.paths(tool, governed_by) if isinstance(self.policy, LimitsPaths) else ()

    def may_write(self, tool: str, governed_by: str | None = None) -> bool:
        return not isinstance(self.policy, LimitsWriting) or self.policy.may_write(
            tool, governed_by
        )


@frozen
class NamedApprover:
    """Asks the caller's approver and names the sub-agent in the reason."""

    approver: Approver
    agent_name: str

    async def ask(self, request: ApprovalRequest) -> Answer | Answered:
        return await self.approver.ask(
            replace(request, reason=f"{self.agent_name}: {request.reason}")
        )
