"""Catalogue of the built-in tools: names and traits, without an agent."""

from collections.abc import Iterable, Mapping
from functools import cache

from agent.events import ToolStart
from agent.security.policy.base import KnownTools
from agent.settings import ToolSettings
from agent.tools.base import Tool
from agent.tools.registry import default_tools
from agent.tools.traits import UNKNOWN, ToolTraits, traits_of
from agent.types import ToolCall


@cache
def built_in_tools() -> Mapping[str, ToolTraits]:
    """Return the traits of the tools that every agent has, in the order that models see."""
    from agent.code.lsp.tool import LspEditTool, LspTool
    from agent.code.symbols.tool import OutlineTool
    from agent.code.virtual_tools import CreateVirtual, SyncVirtual, UpdateVirtual

    code = (LspTool, LspEditTool, OutlineTool, CreateVirtual, UpdateVirtual, SyncVirtual)
    return {**_traits(default_tools(ToolSettings())), **{tool.name: tool.traits for tool in code}}


@cache
def _optional_tools() -> Mapping[str, ToolTraits]:
    from agent.mcp.search import ToolSearch
    from agent.skills.tool import SkillTool
    from agent.tools.creative.asset_export import AssetExport
    from agent.tools.creative.image_generate import ImageGenerate
    from agent.tools.creative.summarize import Summarize

    optional = (SkillTool, ToolSearch, AssetExport, ImageGenerate, Summarize)
    return {tool.name: tool.traits for tool in optional}


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
