"""Requests for a summary."""

from collections.abc import Mapping
from typing import Any

from agent.prompts import load_prompt


def is_summary(body: Mapping[str, Any]) -> bool:
    """Return whether the request is for a summary of its own conversation or of a transcript."""
    is_behind = load_prompt("summarise_here") in str(body["messages"][-1]["content"])
    return is_behind or body["messages"][0]["content"] == load_prompt("summarise")
