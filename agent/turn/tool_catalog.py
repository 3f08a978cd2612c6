"""Catalogue of the built-in tools: names and traits, without an agent."""

from collections.abc import Iterable, Mapping
from functools import cache

from agent.events import ToolStart
from agent.security.policy.base import KnownTools
from agent.settings import ToolSettings
from agent.tools.base import Tool
from agent.tools.built_in import default_tools, tool_class
from agent.tools.traits import UNKNOWN, ToolTraits, traits_of
from agent.types import ToolCall

# Tools of packages above `agent.tools`: tools for agents that work with code, and tools that depend
# on settings.
_CODE = (
    "agent.code.lsp.tool:LspTool",
    "agent.code.lsp.tool:LspEditTool",
    "agent.code.symbols.tool:OutlineTool",
    "agent.code.virtual_documents:CreateVirtual",
    "agent.code.virtual_documents:UpdateVirtual",
    "agent.code.virtual_documents:SyncVirtual",
)
_OPTIONAL = (
    "agent.skills.tool:SkillTool",
    "agent.mcp.search:ToolSearch",
    "agent.tools.creative.asset_export:AssetExport",
    "agent.tools.creative.image_generate:ImageGenerate",
    "agent.tools.creative.summarize:Summarize",
)


@cache
def built_in_tools() -> Mapping[str, ToolTraits]:
    """Return the traits of the tools that every agent has, in the order that models see."""
    return {**_traits(default_tools(ToolSettings())), **_traits(map(tool_class, _CODE))}


@cache
def _optional_tools() -> Mapping[str, ToolTraits]:
    return _traits(map(tool_class, _OPTIONAL))


def known_tools(others: Iterable[Tool] = ()) -> KnownTools:
    """Return the tools that a policy may name: Kore's tools and `others`, such as plugin tools."""
    return KnownTools({**built_in_tools(), **_optional_tools(), **_traits(others)})


@cache
def tool_traits(name: str) -> ToolTraits:
    """Return the traits of Kore's own tool with this name or alias, else `UNKNOWN`."""
    tools = {**built_in_tools(), **_optional_tools()}
    return tools.get(known_tools().canonical(name) or name, UNKNOWN)


def started_event(call: ToolCall) -> ToolStart:
    """Return the start event of a stored call."""
    traits = tool_traits(call.name)
    arguments = call.arguments or {}
    return ToolStart(call.id, call.name, arguments, traits.kind, traits.label, traits.quiet)


def _traits(tools: Iterable[Tool]) -> dict[str, ToolTraits]:
    return {tool.name: traits_of(tool) for tool in tools}
