"""Which chats were given a new id, and by which one Kore goes on calling them."""

from collections.abc import Iterable
from sqlite3 import Connection


def add_alias(connection: Connection, channel: str, moves: Iterable[tuple[str, str]]) -> None:
    """Store (first id, present id) of each; telling it twice changes nothing."""
    connection.executemany(
        "INSERT INTO move (channel, first, now) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET now = excluded.now",
        [(channel, first, now) for first, now in moves],
    )


def load_aliases(connection: Connection, channel: str) -> dict[str, str]:
    """The present ids by the first ones."""
    rows = connection.execute("SELECT first, now FROM move WHERE channel = ?", (channel,))
    return dict(rows.fetchall())
