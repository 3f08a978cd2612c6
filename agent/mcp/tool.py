"""A tool of an MCP server, as Kore's other tools are."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from agent.mcp.listing import AcceptedTools, McpToolDefinition
from agent.mcp.settings import McpServerSettings
from agent.prompts import render_prompt
from agent.security.policy.base import Decision
from agent.security.taint.taint import BOTH, UNTRUSTED
from agent.tools.base import CallContext, EffectPlan
from agent.tools.traits import UNKNOWN, ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

# About 25,000 tokens.
OUTPUT_LIMIT_BYTES = 100_000

# Calls a tool of a server, as long as it is still what its definition says.
Invoke = Callable[[McpToolDefinition, Mapping[str, Any], CallContext], Awaitable[ToolResult]]


class McpTool:
    """Its effect is unknown, so that each call asks and none is repeated; its words are a
    stranger's.

    The model reads its `definition`; `offered` is what the server says of it now, if the owner has
    not accepted that yet. Of a server of the owner's own the definition is the accepted one, and
    only a tool without one is described by words that nobody has accepted.

    It counts as one that edits files if its server may do so: nobody knows what a call does.
    """

    effect: ClassVar[Effect] = "unsafe"
    # The server's own limit holds.
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
        """What would leave for the server; a lasting answer holds for the tool as it is now."""
        host = self.server.host
        return EffectPlan(
            hosts=(host,) if host else (),
            sends=json.dumps(dict(args), ensure_ascii=False, indent=1),
            contents=self._identity,
        )

    @property
    def _identity(self) -> str:
        """What a lasting answer holds for. A configured server is known by its name; another
        session may have another one of the same name."""
        own = self.offered.digest
        return own if self.server.is_configured else f"{own} {self.server.digest}"

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        return await self._invoke(self.offered, args, call)


def _consent(server: McpServerSettings, tool: str, *, has_changed: bool) -> Decision:
    """What the configuration says of calls of a tool: they ask until it says otherwise."""
    if has_changed:
        reason = render_prompt("policy/ask_mcp_changed", server=server.name)
        return Decision("ask", reason, "ask-mcp-changed")
    if server.allows(tool):
        return Decision("allow", f"allowed for the MCP server {server.name}", "mcp-allowed")
    return Decision("ask", render_prompt("policy/ask_mcp", server=server.name), "ask-mcp")
