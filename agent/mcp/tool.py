"""Tools of MCP servers as Kore tools."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from agent.approvals import Recipient
from agent.mcp.listing import AcceptedTools, McpToolDefinition
from agent.mcp.settings import McpServerSettings
from agent.prompts import load_prompt, render_prompt
from agent.security.policy.base import Decision
from agent.security.taint.taint import BOTH, UNTRUSTED
from agent.tools.base import CallContext, EffectPlan
from agent.tools.traits import UNKNOWN, ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

# About 25,000 tokens.
OUTPUT_LIMIT_BYTES = 100_000

# Calls a tool of a server, provided that it still matches its definition.
Invoke = Callable[[McpToolDefinition, Mapping[str, Any], CallContext], Awaitable[ToolResult]]


class McpTool:
    """Tool of a server.

    Its effect is unknown, so each call needs approval, no call is repeated, and results are
    untrusted. The model reads `definition`; `offered` is the server's current description, if the
    owner has not accepted it yet. For an owner's server, `definition` is the accepted definition,
    and only tools that were never accepted have an unaccepted description. If its server may change
    files, a tool counts as an editing tool, because the effects of a call are unknown.
    """

    effect: ClassVar[Effect] = "unsafe"
    # The server's own time limit applies.
    lasts: ClassVar[bool] = True
    has_foreign_schema: ClassVar[bool] = True
    output_limit_bytes: ClassVar[int] = OUTPUT_LIMIT_BYTES

    def __init__(
        self,
        name: str,
        definition: McpToolDefinition,
        server: McpServerSettings,
        invoke: Invoke,
        accepted: AcceptedTools,
        *,
        is_sandboxed: bool,
    ) -> None:
        self.name = name
        self.offered = definition
        self.definition = (accepted.of(definition) if server.is_own else None) or definition
        self.server = server
        self.has_trusted_text = server.is_own and accepted.has(self.definition)
        may_change_files = server.may_change_files(is_sandboxed=is_sandboxed)
        self.traits = ToolTraits("edit") if may_change_files else UNKNOWN
        self._invoke = invoke
        self.brings: frozenset[Taint] = BOTH if server.has_private_results else UNTRUSTED
        self.consent = _consent(server, definition.name, has_changed=not accepted.has(definition))

    @property
    def description(self) -> str:
        return self.definition.description or self.definition.name

    @property
    def parameters(self) -> JsonSchema:
        return self.definition.parameters

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare the data sent to the server; a permanent approval covers the tool's current
        definition.
        """
        server, host = self.server, self.server.host
        # Another session may have a different server of the same name.
        identity = server.program_digest if server.is_configured else server.digest
        return EffectPlan(
            hosts=(host,) if host else (),
            recipient=Recipient(server.name, identity),
            is_recipient_trusted=server.is_trusted_with_private_data,
            sends=json.dumps(dict(args), ensure_ascii=False, indent=1),
            contents=self._identity,
        )

    @property
    def _identity(self) -> str:
        """Subject of a permanent approval.

        A configured server is identified by its name; another session may have a different server
        of the same name.
        """
        own = self.offered.digest
        return own if self.server.is_configured else f"{own} {self.server.digest}"

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        return await self._invoke(self.offered, args, call)


def _consent(server: McpServerSettings, tool: str, *, has_changed: bool) -> Decision:
    """Return the configured decision for calls of a tool; the default is to ask."""
    if has_changed:
        reason = render_prompt("policy/ask_mcp_changed", server=server.name)
        remedy = render_prompt("policy/accept_server_tools", server=server.name)
        return Decision("ask", reason, "ask-mcp-changed", remedy=remedy)
    if server.allows(tool):
        return Decision("allow", f"allowed for the MCP server {server.name}", "mcp-allowed")
    # `kore mcp allow` changes the owner's configuration, which has no servers of others.
    way = "allow_server_tool" if server.project is None else "import_project_server"
    remedy = (
        render_prompt(f"policy/{way}", server=server.name, tool=tool)
        if server.is_own
        else load_prompt("policy/allow_in_conversation")
    )
    reason = render_prompt("policy/ask_mcp", server=server.name)
    return Decision("ask", reason, "ask-mcp", remedy=remedy)
