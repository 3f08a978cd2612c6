"""Verbs for what others make: MCP servers, skills, plugins and markets."""
