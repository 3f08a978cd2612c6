"""Plugins: bundles of skills, commands, agents and MCP servers, with their markets."""
