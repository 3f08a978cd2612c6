"""SQL conditions for SQLite and PostgreSQL: prefixes, lists of values, states of rows."""

from collections.abc import Sequence

# The highest code point: texts with a prefix sort between the prefix and the prefix followed by it.
# An index serves this only where texts are ordered by code point, as in SQLite (`COLLATE "C"`
# elsewhere).
_LAST_LETTER = chr(0x10FFFF)
# Reason for the tombstone of a stranger's message.
DENIED = "not on the allow-list"

# A row of the inbox that no turn has taken.
WAITING = "turn_id IS NULL AND dead_reason IS NULL"

# A turn that has not ended.
LIVE = "state IN ('running', 'waiting')"

# The index of live turns is used only for queries with its exact condition.
RUNNING = f"({LIVE} AND state = 'running')"

AWAITING = f"({LIVE} AND state = 'waiting')"


def beginning(prefix: str) -> tuple[str, str]:
    """Return the two values for `column >= ? AND column < ?`."""
    return prefix, prefix + _LAST_LETTER


def one_of(column: str, values: Sequence[str]) -> str:
    """Return `column IN (?, ?)` with a mark for each value, or `FALSE` without values."""
    return f"{column} IN ({', '.join('?' for _ in values)})" if values else "FALSE"


def none_of(column: str, values: Sequence[str]) -> str:
    return f"NOT {one_of(column, values)}"


def literal(text: str) -> str:
    """Return a text escaped for `LIKE ? ESCAPE '\\'`, so that it matches literally."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
