"""The tools that know code, made for an agent."""

from agent.settings import ToolSettings
from agent.tools.base import Tool


def code_tools(settings: ToolSettings) -> list[Tool]:
    """Those that a conversation with a project is told of."""
    return []
