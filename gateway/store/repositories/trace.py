"""How much of what was done somebody wants to see below the answers of a conversation."""

from sqlite3 import Connection
from typing import get_args

from gateway.turns.trace import Trace


def trace_of_session(connection: Connection, session: str) -> Trace | None:
    """None where nobody chose."""
    (found,) = connection.execute(
        "SELECT metadata ->> 'trace' FROM session WHERE id = ?", (session,)
    ).fetchone()
    return next((level for level in get_args(Trace) if level == found), None)


def choose_trace(connection: Connection, session: str, level: Trace) -> None:
    connection.execute(
        "UPDATE session SET metadata = json_set(metadata, '$.trace', ?) WHERE id = ?",
        (level, session),
    )


def carry_trace(connection: Connection, old: str, new: str) -> None:
    """What was chosen in the old conversation holds in the new one."""
    if (level := trace_of_session(connection, old)) is not None:
        choose_trace(connection, new, level)
