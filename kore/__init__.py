"""Kore as a library: an agent that talks to a model, runs tools and keeps its history valid.

import kore

result = await kore.run("What is in this folder?", model="openai/gpt-5")
"""

from agent import events
from agent.agent import Agent
from agent.api import parallel, run, run_sync, stream
from agent.approvals import Answer, ApprovalRequest
from agent.errors import (
    ConfigError,
    GuardrailTripped,
    InputGuardrailTripped,
    KoreError,
    OutputGuardrailTripped,
    PolicyDenied,
    ProviderError,
    ToolError,
)
from agent.events import Event
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.providers.base import ModelRequest, Provider
from agent.providers.model_settings import ModelSettings
from agent.providers.pool import ModelPool as Models
from agent.providers.registry import ModelConfig, list_providers, register_provider
from agent.run.content import ImageUrl
from agent.run.goals import GoalLimits, GoalResult
from agent.run.history import History, JsonlHistory, MemoryHistory
from agent.run.parallel import ParallelResults
from agent.security.policy.base import Answered, Approver, Decision, Policy, ToolRequest
from agent.settings import AgentSettings, LspServerSettings, LspSettings, SubagentLimits
from agent.subagents.definition import SubagentDefinition as Definition
from agent.subagents.handoff import Handoff, remove_all_tools
from agent.tools.base import CallContext, Tool
from agent.tools.elicitation import Elicitation, ElicitationAnswer
from agent.tools.function_tool import tool
from agent.tools.run_context import RunContext
from agent.tools.runner import Permissions
from agent.turn.guardrails import InputGuardrail, OutputGuardrail, input_guardrail, output_guardrail
from agent.turn.hooks import Hooks
from agent.turn.tool_caller import ToolCaller, ToolStep
from agent.types import Image, ImageFile, Message, Result, Text, ToolCall, ToolResult, Usage
from agent.version import VERSION as __version__

__all__ = [
    "Agent",
    "AgentSettings",
    "Answer",
    "Answered",
    "ApprovalRequest",
    "Approver",
    "CallContext",
    "ConfigError",
    "Decision",
    "Definition",
    "Elicitation",
    "ElicitationAnswer",
    "Event",
    "GoalLimits",
    "GoalResult",
    "GuardrailTripped",
    "Handoff",
    "History",
    "Hooks",
    "Image",
    "ImageFile",
    "ImageUrl",
    "InputGuardrail",
    "InputGuardrailTripped",
    "JsonlHistory",
    "KoreError",
    "LspServerSettings",
    "LspSettings",
    "McpServerSettings",
    "McpSettings",
    "MemoryHistory",
    "Message",
    "ModelConfig",
    "ModelRequest",
    "ModelSettings",
    "Models",
    "OutputGuardrail",
    "OutputGuardrailTripped",
    "ParallelResults",
    "Permissions",
    "Policy",
    "PolicyDenied",
    "Provider",
    "ProviderError",
    "Result",
    "RunContext",
    "SubagentLimits",
    "Text",
    "Tool",
    "ToolCall",
    "ToolCaller",
    "ToolError",
    "ToolRequest",
    "ToolResult",
    "ToolStep",
    "Usage",
    "__version__",
    "events",
    "input_guardrail",
    "list_providers",
    "output_guardrail",
    "parallel",
    "register_provider",
    "remove_all_tools",
    "run",
    "run_sync",
    "stream",
    "tool",
]
