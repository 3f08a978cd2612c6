"""Channels that this process runs, in temporary tables; it ignores work of other channels.

Every statement that takes work uses `run_here`. A row of two asterisks means every channel.
"""

from collections.abc import Collection, Mapping
from typing import get_args

from gateway.core.messages import QueueMode
from gateway.store.port import Transaction

ALL = (("*", "*"),)


def run_here(table: str) -> str:
    """Return the condition that this process runs a row's `channel` and `account`."""
    return (
        f"EXISTS (SELECT 1 FROM active_channel a WHERE a.channel IN ({table}.channel, '*')"
        f" AND a.account IN ({table}.account, '*'))"
    )


# Matches rows of `turn` whose messages came through a channel that this process runs.
TURN_RUN_HERE = f"EXISTS (SELECT 1 FROM inbox i WHERE i.turn_id = turn.id AND {run_here('i')})"


def install(
    tx: Transaction,
    channels: Collection[tuple[str, str]] = ALL,
    modes: Mapping[str, str] = {},
) -> None:
    """Create the tables; every channel counts as run by this process unless `limit` is called."""
    tx.run(
        "CREATE TEMP TABLE active_channel (channel TEXT, account TEXT,"
        " PRIMARY KEY (channel, account))"
    )
    tx.run("CREATE TEMP TABLE queue_default (channel TEXT PRIMARY KEY, mode TEXT)")
    limit(tx, channels)
    set_queues(tx, modes)


def load_settings(tx: Transaction) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Return the settings of `limit` and `set_queues`."""
    channels = [(name, account) for name, account in tx.all("SELECT * FROM active_channel")]
    return channels, dict(tx.all("SELECT channel, mode FROM queue_default"))


def limit(tx: Transaction, channels: Collection[tuple[str, str]]) -> None:
    """Run only these channels, by name and account, from now on."""
    tx.run("DELETE FROM active_channel")
    tx.many("INSERT INTO active_channel (channel, account) VALUES (?, ?)", set(channels))


def set_queues(tx: Transaction, modes: Mapping[str, str]) -> None:
    """Set the default queue mode per channel, for lanes without a choice.

    The mode determines the handling of messages that arrive while a turn runs.
    """
    tx.run("DELETE FROM queue_default")
    tx.many("INSERT INTO queue_default (channel, mode) VALUES (?, ?)", modes.items())


def queue_default(tx: Transaction, lane: str) -> QueueMode:
    channel = lane.partition(":")[0]
    row = tx.first("SELECT mode FROM queue_default WHERE channel = ?", (channel,))
    return as_queue_mode(row[0] if row else None)


def as_queue_mode(value: object) -> QueueMode:
    return next((mode for mode in get_args(QueueMode) if mode == value), "queue")


def foreign_channel(tx: Transaction, session: str) -> str | None:
    """Return the channel of a session's unfinished turn if this process does not run it."""
    row = tx.first(
        "SELECT i.channel FROM turn JOIN inbox i ON i.turn_id = turn.id WHERE turn.session = ?"
        f" AND turn.state IN ('running', 'waiting') AND NOT {run_here('i')} LIMIT 1",
        (session,),
    )
    return None if row is None else str(row[0])
