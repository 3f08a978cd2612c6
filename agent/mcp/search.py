"""Search for MCP tools that are too many to include in each request.

Models know their names, search for descriptions and call them by name.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.mcp.tool import McpTool
from agent.prompts import load_prompt, render_prompt
from agent.providers.tool_calls import parse_tool_call
from agent.security.policy.base import SERVER_TOOLS
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.text import ranking
from agent.tools.base import CallContext
from agent.tools.schema import parameters, properties_of
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolCall, ToolResult

# All names together, about 1,250 tokens.
MAX_NAMES_CHARS = 5_000
MAX_MATCHES = 5


class ToolSearch:
    """Tool that describes the tools matching a query, in the servers' words."""

    name: ClassVar[str] = "tool_search"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "search",
        label=mark_for_translation("Looking for tools: {query}"),
        quiet=True,
        governed_by=SERVER_TOOLS,
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = UNTRUSTED
    parameters: ClassVar[JsonSchema] = parameters(query="string")

    def __init__(self, tools: Sequence[McpTool]) -> None:
        self._tools = tools
        self._description = render_prompt("tools/tool_search", names=_names(tools))

    @property
    def description(self) -> str:
        return self._description

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        tools = self._matches(args["query"])
        if not tools:
            raise ToolError("No tool matches; try other words, or a tool's name.")
        entries = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in tools
        ]
        return ToolResult(
            "\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries),
            for_user=", ".join(tool.name for tool in tools),
        )

    def _matches(self, query: str) -> list[McpTool]:
        word = query.strip()
        exact = [tool for tool in self._tools if word in (tool.name, tool.definition.name)]
        if exact:
            return exact[:MAX_MATCHES]
        texts = [_searchable(tool) for tool in self._tools]
        scores = ranking.scores(ranking.query_terms(query.replace("_", " ")), texts)
        best = sorted(zip(scores, self._tools, strict=True), key=lambda pair: -pair[0])
        return [tool for score, tool in best[:MAX_MATCHES] if score > 0]


class McpCall:
    """Tool whose calls are replaced with calls of the tool that they name; it never runs itself."""

    name: ClassVar[str] = "mcp_call"
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = parameters(tool="string", arguments="object?")

    def __init__(self, tools: Sequence[McpTool]) -> None:
        self._names = {tool.name for tool in tools}

    @property
    def description(self) -> str:
        return load_prompt("tools/mcp_call")

    def stands_for(self, call: ToolCall) -> ToolCall:
        """Return the call of the named tool, or the same call if it names none."""
        wrapper_arguments = call.arguments or {}
        name, arguments = wrapper_arguments.get("tool"), wrapper_arguments.get("arguments", {})
        if isinstance(arguments, str):
            arguments = parse_tool_call(call.id, "", arguments).arguments
        if not isinstance(name, str) or name not in self._names or not isinstance(arguments, dict):
            return call
        return ToolCall(call.id, name, arguments, json.dumps(arguments))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        raise ToolError(
            f"There is no tool {str(args.get('tool'))[:80]!r} of an MCP server, or its arguments "
            "are no object: tool_search shows the names and arguments."
        )


def _names(tools: Sequence[McpTool]) -> str:
    """Return all names by server, cut to the limit, with the number of omitted names."""
    parts = []
    for server, group in groupby(tools, key=lambda tool: tool.server.name):
        names = [tool.definition.name for tool in group]
        parts.append(f"mcp__{server}__ ({', '.join(names)})")
    text = "; ".join(parts)
    if len(text) <= MAX_NAMES_CHARS:
        return text
    cut = text[:MAX_NAMES_CHARS].rpartition(",")[0]
    left = text.count(",") - cut.count(",")
    return f"{cut}, and about {left} more"


def _searchable(tool: McpTool) -> str:
    names = " ".join([tool.name, *properties_of(tool.parameters)])
    return f"{names.replace('_', ' ')} {tool.description}"
