"""Programs and addresses that the settings and plugins name: MCP servers, language servers."""
