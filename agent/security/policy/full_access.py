"""Full access: every call runs, regardless of taint."""

from dataclasses import field

from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.policy.base import Decision, ToolRequest, is_named

FULL_ACCESS = Decision("allow", "full access is on for this run", "full-access")


@frozen
class FullAccessPolicy:
    """Allows every call, except of tools excluded from this run.

    An `Authorizer` adds no taint decision to it.
    """

    only_tools: frozenset[str] | None = None
    without_tools: frozenset[str] = field(default_factory=frozenset)

    def decide(self, request: ToolRequest) -> Decision:
        tool = request.tool
        is_chosen = self.only_tools is None or is_named(tool, self.only_tools)
        if not is_chosen or is_named(tool, self.without_tools):
            return Decision("deny", render_prompt("policy/run_tools", tool=tool), "run-tools")
        return FULL_ACCESS
