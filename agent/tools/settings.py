"""What the built-in tools can be told."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """Limits and boundaries of the built-in tools.

    `output_limit_bytes` bounds what one result gives the model to read. `blocked_paths` are
    components, or sequences of them, that no path may contain.
    """

    exec_timeout_s: float = 60
    output_limit_bytes: int = 10_000
    web_search_results: int = 5
    restrict_to_workspace: bool = True
    blocked_paths: tuple[str, ...] = (".git", ".env", "node_modules/.cache")
