"""Owners of a PostgreSQL database, and simulation of a silent owner."""

from contextlib import closing
from pathlib import Path

from gateway.store.opening import open_store
from gateway.store.port import Store
from gateway.store.postgres.connection import connect
from gateway.store.postgres.lease import ServerWatch


def silent(address: str, seconds: float) -> None:
    """Make the owner appear silent for `seconds`."""
    with closing(connect(address)) as connection, connection.transaction():
        # The owner uses this isolation level, too.
        connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.execute(
            "UPDATE owner SET seen_at = extract(epoch FROM clock_timestamp()) - %s", (seconds,)
        )


def open_now(address: str, folder: Path, *, lease_s: float = 15.0, replaces: bool = False) -> Store:
    watch = ServerWatch(lease_s) if replaces else None
    return open_store(address, folder, check=False, cipher=None, lease_s=lease_s, watch=watch)
