"""Detection of repeated tool calls with identical results."""

import re
from typing import Literal

from agent.types import ToolCall, ToolResult

WARN_AT = (3, 5, 8)
STOP_AT = 12
# Long output is stored in a file with a new name each time, even if the output is the same.
_SPILLED = re.compile(r"\d{8}-\d{6}-[0-9a-f]+\.txt")

_Call = tuple[str, str]


class LoopGuard:
    """Counter of identical results per call since the last change.

    A change is a call with a different result than before, or the first success of a call that may
    change something: twelve edits, each followed by a passing check, are progress. Other reads in
    between do not reset the count.
    """

    def __init__(self) -> None:
        self._results: dict[_Call, str] = {}
        self._counts: dict[_Call, int] = {}

    def check(
        self, call: ToolCall, result: ToolResult, *, may_change: bool
    ) -> Literal["fine", "warn", "stop"]:
        """Record a finished call and return the action; `may_change` is False for a read."""
        key = (call.name, call.raw)
        text = _SPILLED.sub("", result.for_model)
        earlier = self._results.get(key)
        if (may_change and earlier is None and not result.is_error) or earlier not in (None, text):
            self._counts.clear()
        self._results[key] = text
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count >= STOP_AT:
            return "stop"
        return "warn" if count in WARN_AT else "fine"
