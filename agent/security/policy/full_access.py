"""Full access: every call runs, and what the session has taken in stops nothing."""

from dataclasses import field

from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.policy.base import Decision, ToolRequest, is_named

FULL_ACCESS = Decision("allow", "full access is on for this run", "full-access")


@frozen
class FullAccessPolicy:
    """Allows each call, except of tools that this run is not to use.

    An `Authorizer` puts no taint beside its decision.
    """

    only_tools: frozenset[str] | None = None
    without_tools: frozenset[str] = field(default_factory=frozenset)

    def decide(self, request: ToolRequest) -> Decision:
        tool = request.tool
        is_chosen = self.only_tools is None or is_named(tool, self.only_tools)
        if not is_chosen or is_named(tool, self.without_tools):
            return Decision("deny", render_prompt("policy/run_tools", tool=tool), "run-tools")
        return FULL_ACCESS
