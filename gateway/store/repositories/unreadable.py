"""A row of the outbox that does not open: what can still be said of it."""

from sqlite3 import Connection


def give_up_unreadable(connection: Connection, lane: str, reason: str) -> int:
    """End the first row of a route, whatever stands in it; returns how many rows that were."""
    return connection.execute(
        "UPDATE outbox SET state = 'dead', dead_reason = ? WHERE seq = (SELECT min(seq) FROM outbox"
        " WHERE lane = ? AND state IN ('pending', 'inflight'))",
        (reason, lane),
    ).rowcount


def set_sent(connection: Connection, seq: int, provider_msg: str) -> None:
    """The row has arrived; what stands behind it is not looked at."""
    connection.execute(
        "UPDATE outbox SET state = 'sent', provider_msg = ? WHERE seq = ?", (provider_msg, seq)
    )
