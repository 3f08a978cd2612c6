"""What an agent can be told, as plain values; reading files and environments is the caller's."""

from dataclasses import dataclass, field

from agent.tools.settings import ToolSettings


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Limits and defaults. `call_timeout_s` bounds one tool call, `max_iterations` model calls."""

    max_iterations: int = 50
    temperature: float | None = None
    max_tokens: int | None = None
    call_timeout_s: float = 900
    tools: ToolSettings = field(default_factory=ToolSettings)
