"""An MCP server of 2026-07-28, by the SDK, whose tool `grow` adds another tool: over stdio, or over
HTTP at the port that its argument names."""

import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("growing")


def late() -> str:
    """Was not there before."""
    return "late"


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool."""
    server.add_tool(late)
    await ctx.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
