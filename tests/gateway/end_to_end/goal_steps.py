"""Model that works towards a goal turn by turn."""

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

from tests.fakes.model_mind import Mind
from tests.fakes.model_script import ReplyScript

TURNS = 3


def is_check(body: Mapping[str, Any]) -> bool:
    return "You judge whether a goal is met" in json.dumps(body["messages"][0])


def stepping(hanging: int = 0) -> Mind:
    """Return a model that needs `TURNS` turns; request number `hanging` gets no answer."""
    numbers = count(1)

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        latency_s = 60.0 if next(numbers) == hanging else 0.0
        if is_check(body):
            is_met = f"step {TURNS}" in json.dumps(body["messages"][-1])
            verdict = {"met": is_met, "evidence": "all steps", "missing": "the next step"}
            return ReplyScript(text=json.dumps(verdict), latency_s=latency_s)
        replies = [message for message in body["messages"] if message["role"] == "assistant"]
        return ReplyScript(text=f"step {len(replies) + 1}", latency_s=latency_s)

    return mind
