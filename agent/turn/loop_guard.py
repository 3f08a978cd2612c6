"""Notices a model that makes the same call, with the same result, again and again."""

import re
from typing import Literal

from agent.types import ToolCall, ToolResult

WARN_AT = (3, 5, 8)
STOP_AT = 12
# A long output is kept in a file, whose name is new each time though the output is the same.
_SPILLED = re.compile(r"\d{8}-\d{6}-[0-9a-f]+\.txt")

_Call = tuple[str, str]


class LoopGuard:
    """Counts how often a call has had the same result since anything changed.

    Something has changed when a call has another result than before, and when a call that may
    change things succeeds for the first time: twelve edits, each followed by a check that passes,
    are work. Reading something else in between changes nothing.
    """

    def __init__(self) -> None:
        self._results: dict[_Call, str] = {}
        self._counts: dict[_Call, int] = {}

    def check(
        self, call: ToolCall, result: ToolResult, *, may_change: bool
    ) -> Literal["fine", "warn", "stop"]:
        """What to do about this call, which has just ended; `may_change` says whether it is more
        than a look."""
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
