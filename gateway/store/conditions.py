"""Conditions on a column that SQLite and PostgreSQL both understand: its beginning, a list."""

from collections.abc import Sequence

# The last of all letters: what begins with a text stands between it and it with this behind it.
# An index serves that only where texts are in the order of their letters' numbers, as SQLite keeps
# them (`COLLATE "C"` elsewhere).
_LAST_LETTER = chr(0x10FFFF)


def beginning(prefix: str) -> tuple[str, str]:
    """The two values of `column >= ? AND column < ?`."""
    return prefix, prefix + _LAST_LETTER


def one_of(column: str, values: Sequence[str]) -> str:
    """`column IN (?, ?)`, for as many values; no row's column is one of none."""
    return f"{column} IN ({', '.join('?' for _ in values)})" if values else "FALSE"


def none_of(column: str, values: Sequence[str]) -> str:
    return f"NOT {one_of(column, values)}"


def literal(text: str) -> str:
    """A text as a part of the pattern of `LIKE ? ESCAPE '\\'`, where it stands for itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
