"""Command `kore mcp` and OAuth logins of MCP servers."""
