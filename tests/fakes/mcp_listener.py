"""An MCP server of 2026-07-28 over stdio, by the SDK, whose tool `grow` adds another tool."""

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
    server.run()
