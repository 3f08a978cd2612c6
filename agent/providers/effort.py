"""Levels of reasoning effort."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from agent.types import ReasoningEffort

EFFORTS: tuple[ReasoningEffort, ...] = get_args(ReasoningEffort)
# Name of the effort in `ModelRequest.options`.
EFFORT = "reasoning_effort"


def nearest_effort(
    effort: ReasoningEffort, supported: Sequence[ReasoningEffort]
) -> ReasoningEffort:
    """Return the supported effort that is nearest to `effort`; if two are, the higher one.

    An empty `supported` means that every effort is supported.
    """
    if not supported or effort in supported:
        return effort
    rank = EFFORTS.index(effort)
    distances = {level: abs(EFFORTS.index(level) - rank) for level in supported}
    return min(supported, key=lambda level: (distances[level], -EFFORTS.index(level)))


def asks_for_thoughts(options: Mapping[str, Any]) -> bool:
    return options.get(EFFORT) not in (None, "none")


def without_effort(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != EFFORT}


def read_effort(text: str | None) -> ReasoningEffort | None:
    """Return the effort of this name; None for any other text."""
    return next((effort for effort in EFFORTS if effort == text), None)
