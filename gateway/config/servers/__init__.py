"""Servers in the settings and in plugins: MCP servers, language servers."""
