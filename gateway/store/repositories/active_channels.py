"""Which channels this process runs: it leaves the work of all others alone.

The connection knows it as the SQL function `is_run_here(channel, account)`, so that every statement
that takes up work can ask.
"""

from collections.abc import Collection, Mapping
from sqlite3 import Connection

# A row of `turn` whose messages came through a channel that is run here.
TURN_RUN_HERE = (
    "EXISTS (SELECT 1 FROM inbox i WHERE i.turn_id = turn.id AND is_run_here(i.channel, i.account))"
)


def install(connection: Connection) -> None:
    """Every channel counts as run here until `limit` says otherwise."""
    connection.create_function("is_run_here", 2, lambda channel, account: True)
    set_queues(connection, {})


def limit(connection: Connection, channels: Collection[tuple[str, str]]) -> None:
    """From now on only these channels, by name and account, are run here."""
    known = frozenset(channels)

    def is_run_here(channel: str, account: str) -> bool:
        return (channel, account) in known

    connection.create_function("is_run_here", 2, is_run_here)


def set_queues(connection: Connection, modes: Mapping[str, str]) -> None:
    """What becomes of messages that come while a turn runs, by the channel of their lane, as long
    as nobody has chosen: the SQL function `queue_default(lane)`."""

    def queue_default(lane: str) -> str:
        return modes.get(lane.partition(":")[0], "queue")

    connection.create_function("queue_default", 1, queue_default)


def foreign_channel(connection: Connection, session: str) -> str | None:
    """The channel that a session's unfinished turn belongs to, when it is not run here."""
    row = connection.execute(
        "SELECT i.channel FROM turn JOIN inbox i ON i.turn_id = turn.id WHERE turn.session = ?"
        " AND turn.state IN ('running', 'waiting') AND NOT is_run_here(i.channel, i.account)"
        " LIMIT 1",
        (session,),
    ).fetchone()
    return None if row is None else str(row[0])
