"""Resources of servers, listed and read by a tool that Kore adds."""

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
# Further resources can be read, but are not listed.
MAX_LISTED = 200
_MAX_PAGES = 20


def resource_tool(server: str) -> McpToolDefinition:
    """Return the resource tool of a server."""
    text = render_prompt("tools/read_resource", server=server)
    return McpToolDefinition(NAME, text, parameters(uri="string?"))


async def read_resource(client: "Client", uri: str | None) -> ToolResult:
    """Return the content of a resource, or the list of resources without a URI."""
    if not uri:
        return ToolResult("\n".join(await _listing(client)) or "There are no resources.")
    result = await client.read_resource(uri)
    return ToolResult("\n".join(resource_text(part) for part in result.contents))


async def _listing(client: "Client") -> list[str]:
    lines: list[str] = []
    cursor = None
    for _ in range(_MAX_PAGES):
        page = await client.list_resources(cursor=cursor)
        for resource in page.resources:
            lines.append(_line(str(resource.uri), resource.name, resource.description))
        cursor = page.next_cursor
        if cursor is None or len(lines) >= MAX_LISTED:
            break
    templates = await client.list_resource_templates()
    lines += [
        _line(template.uri_template, template.name, template.description)
        for template in templates.resource_templates
    ]
    return lines[:MAX_LISTED]


def _line(uri: str, name: str, description: str | None) -> str:
    return escape_line(f"{uri}: {name}" + (f" - {description[:200]}" if description else ""))
