"""Limit on the output of servers, for MCP servers and language servers alike."""

import re
import time

from agent.tools.shell.confined_server import TooMuchOutput

# Burst and sustained rate of a server's output: more is a flood.
MAX_AT_ONCE_BYTES = 64_000_000
MAX_BYTES_PER_S = 1_000_000
# A JSON value takes more time and memory than its few bytes suggest.
VALUE_BYTES = 64
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class OutputBudget:
    """Bytes that a server may still send; the budget refills with time."""

    def __init__(self) -> None:
        self._spent_bytes = 0.0
        self._taken_at = time.monotonic()

    def take(self, size_bytes: int) -> None:
        """Spend this number of bytes. Raises `TooMuchOutput`."""
        now = time.monotonic()
        left_bytes = self._spent_bytes - (now - self._taken_at) * MAX_BYTES_PER_S
        self._spent_bytes, self._taken_at = max(0.0, left_bytes), now
        if self._spent_bytes + size_bytes > MAX_AT_ONCE_BYTES:
            raise TooMuchOutput("It sends without end.")
        self._spent_bytes += size_bytes

    def take_values(self, json: bytes) -> None:
        """Spend the weight of JSON values beyond their bytes, before decoding.

        Raises `TooMuchOutput`.
        """
        if (excess := _value_bytes(json) - len(json)) <= 0:
            return
        # Strings contain commas, too.
        if (excess := _value_bytes(_STRING.sub(b"", json)) - len(json)) > 0:
            self.take(excess)


def _value_bytes(json: bytes) -> int:
    return VALUE_BYTES * (json.count(b",") + json.count(b"[") + json.count(b"{"))
