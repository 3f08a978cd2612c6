"""MCP server of 2026-07-28, based on the SDK, whose tool `grow` adds another tool.

It runs over stdio, or over HTTP at the port in the first argument; the second argument may be the
transport `sse`.
"""

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
        port = int(sys.argv[1])
        if sys.argv[2:] == ["sse"]:
            server.run("sse", port=port)
        else:
            server.run("streamable-http", port=port)
    else:
        server.run()
