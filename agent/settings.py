"""What an agent can be told, as plain values; reading files and environments is the caller's."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """Limits and boundaries of the built-in tools.

    `output_limit_bytes` bounds what one result gives the model to read. `blocked_paths` are
    components, or sequences of them, that no path may contain; `off_limits` are files and folders
    that no file tool opens, wherever it may go otherwise.
    """

    exec_timeout_s: float = 60
    output_limit_bytes: int = 10_000
    web_search_results: int = 5
    restrict_to_workspace: bool = True
    blocked_paths: tuple[str, ...] = (".git", ".env", "node_modules/.cache")
    off_limits: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Limits and defaults. `call_timeout_s` bounds one tool call, `max_iterations` model calls."""

    max_iterations: int = 50
    temperature: float | None = None
    max_tokens: int | None = None
    call_timeout_s: float = 900
    tools: ToolSettings = field(default_factory=ToolSettings)
