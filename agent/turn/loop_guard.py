"""Notices a model that makes the same call, with the same result, again and again."""

import re
from collections import Counter
from typing import Literal

from agent.types import ToolCall, ToolResult

WARN_AT = 3
STOP_AT = 6
# A long output is kept in a file, whose name is new each time though the output is the same.
_SPILLED = re.compile(r"\d{8}-\d{6}-[0-9a-f]+\.txt")


class LoopGuard:
    """Counts (tool, arguments, result) over a whole turn; other calls in between reset nothing."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str, str]] = Counter()

    def check(self, call: ToolCall, result: ToolResult) -> Literal["fine", "warn", "stop"]:
        key = (call.name, call.raw, _SPILLED.sub("", result.for_model))
        self._seen[key] += 1
        count = self._seen[key]
        if count >= STOP_AT:
            return "stop"
        return "warn" if count >= WARN_AT else "fine"
