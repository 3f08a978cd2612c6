"""Plugins: bundles of skills, commands, agents and MCP servers, installed from many places."""
