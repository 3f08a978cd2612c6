"""Resources of a server: listed and read by a tool that Kore gives each server that has some."""

from typing import TYPE_CHECKING

from agent.mcp.listing import McpToolDefinition
from agent.mcp.results import resource_text
from agent.prompts import render_prompt
from agent.text.visible import escape_line
from agent.tools.schema import parameters
from agent.types import ToolResult

if TYPE_CHECKING:
    from mcp import Client

NAME = "read_resource"
# More are there only by their addresses.
MOST_LISTED = 200
_MOST_PAGES = 20


def resource_tool(server: str) -> McpToolDefinition:
    """The tool, as models are told of it."""
    text = render_prompt("tools/read_resource", server=server)
    return McpToolDefinition(NAME, text, parameters(uri="string?"))


async def read_resource(client: "Client", uri: str | None) -> ToolResult:
    """What a resource holds, or the list of them."""
    if not uri:
        return ToolResult("\n".join(await _listing(client)) or "There are no resources.")
    result = await client.read_resource(uri)
    return ToolResult("\n".join(resource_text(part) for part in result.contents))


async def _listing(client: "Client") -> list[str]:
    lines: list[str] = []
    cursor = None
    for _ in range(_MOST_PAGES):
        page = await client.list_resources(cursor=cursor)
        for one in page.resources:
            lines.append(_line(str(one.uri), one.name, one.description))
        cursor = page.next_cursor
        if cursor is None or len(lines) >= MOST_LISTED:
            break
    templates = await client.list_resource_templates()
    lines += [
        _line(one.uri_template, one.name, one.description) for one in templates.resource_templates
    ]
    return lines[:MOST_LISTED]


def _line(uri: str, name: str, description: str | None) -> str:
    return escape_line(f"{uri}: {name}" + (f" - {description[:200]}" if description else ""))
