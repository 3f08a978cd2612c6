"""Replacement of a silent owner by a standby process that has watched the server."""

import asyncio
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gateway.store.errors import StoreInUse
from gateway.store.postgres import ownership
from gateway.store.postgres.connection import connect
from gateway.store.postgres.lease import ServerWatch
from tests import postgres_server
from tests.gateway.store.postgres.owners import open_now, silent

# With this lease, a second check of the owner takes place after 24 s.
LEASE_S = 60.0


class HandClock:
    """Clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def watched(clock: HandClock) -> ServerWatch:
    """Return a watch that has seen the server answer for the length of a lease."""
    watch = ServerWatch(LEASE_S, clock)
    for _ in range(6):
        watch.note()
        clock.now += LEASE_S / 5
    return watch


def test_watch_covers_a_lease_once_it_has_seen_one() -> None:
    clock = HandClock()
    watch = ServerWatch(LEASE_S, clock)
    assert not watch.covers_lease
    watch.note()
    assert not watch.covers_lease
    assert watched(clock).covers_lease


def test_watch_restarts_after_a_pause() -> None:
    clock = HandClock()
    watch = watched(clock)
    clock.now += LEASE_S / 2
    watch.note()
    assert not watch.covers_lease


async def test_silent_owner_is_replaced_at_once_if_the_server_was_watched(
    tmp_path: Path,
) -> None:
    address = postgres_server.create_database()
    stopped = open_now(address, tmp_path, lease_s=3600)
    try:
        silent(address, 2 * LEASE_S)
        watch = watched(HandClock())
        with closing(connect(address)) as connection:
            # Connections of another process have such a name.
            connection.execute("SET application_name = 'kore successor'")
            began_at = time.monotonic()
            await asyncio.to_thread(ownership.lock_data, connection, "here", LEASE_S, watch)
            assert time.monotonic() - began_at < LEASE_S / 4
    finally:
        await stopped.close()


class PausedServer:
    """Server that pauses for a lease during the first check of its owner.

    The owner reports again soon afterwards.
    """

    def __init__(self, connection: "psycopg.Connection[Any]", clock: HandClock) -> None:
        self._connection, self._clock = connection, clock
        self.looks = 0

    def execute(self, query: Any, args: Any = None) -> "psycopg.Cursor[Any]":
        if "FROM owner" in str(query):
            self.looks += 1
            self._clock.now += LEASE_S
            if self.looks > 1:
                self._connection.execute(
                    "UPDATE owner SET seen_at = extract(epoch FROM clock_timestamp())"
                )
        return self._connection.execute(query, args)


async def test_owner_is_not_replaced_after_a_pause_of_the_check(tmp_path: Path) -> None:
    lease_s = 1.0
    address = postgres_server.create_database()
    owner = open_now(address, tmp_path, lease_s=3600)
    try:
        silent(address, 2 * LEASE_S)
        clock = HandClock()
        watch = watched(clock)
        with closing(connect(address)) as connection:
            server = PausedServer(connection, clock)
            with pytest.raises(StoreInUse):
                await asyncio.to_thread(ownership.lock_data, server, "here", lease_s, watch)
    finally:
        await owner.close()
