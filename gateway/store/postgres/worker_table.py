"""Table of workers: processes that run turns alongside the owner, each fenced by its own row.

A worker that is silent for a lease is declared dead, and its unfinished work goes to the process
that declared it dead. A worker reads its row in each transaction, so a dead worker cannot commit.
"""

import json
import time
from collections.abc import Sequence

import psycopg

from gateway.core.addresses import application_name
from gateway.core.records import WorkerInfo
from gateway.store.port import Row, Transaction
from gateway.store.postgres import commit_mark
from gateway.store.postgres.connection import END_CONNECTIONS
from gateway.store.postgres.lease import BEGIN, NOW, Fence
from gateway.store.postgres.migrator import OLDEST_SCHEMA, SCHEMA

# A worker's connections have their own slots.
_SLOTS = 1 << 8
_FIRST_SLOT = 1 << 20
_KEPT_S = 86_400.0
_WORKERS = f"SELECT id, name, began_at, {NOW} - seen_at, state, schema, is_ended FROM worker"


def add(connection: "psycopg.Connection[Row]", name: str) -> int:
    """Add a worker; returns its number."""
    row = connection.execute(
        f"INSERT INTO worker (name, schema, began_at, seen_at) VALUES (%s, %s, {NOW}, {NOW})"
        " RETURNING id",
        (name, SCHEMA.newest),
    ).fetchone()
    assert row is not None, "one row was inserted"
    return int(row[0])


def fence(number: int) -> Fence:
    alive = f"worker WHERE id = {number:d} AND is_ended = 0"
    return Fence(
        number=number,
        begin=f"{BEGIN}; SELECT id FROM {alive}",
        beat=f"UPDATE worker SET seen_at = {NOW}, state = %s WHERE id = {number:d}"
        " AND is_ended = 0",
        has_state=True,
    )


def first_slot(number: int) -> int:
    """Return the first slot for the marks of a worker's connections."""
    return _FIRST_SLOT + number * _SLOTS


def begin_owner(connection: "psycopg.Connection[Row]", *, keeps: bool) -> None:
    """End the workers of an earlier owner.

    With `keeps`, only workers of a program that is too old for these tables end.
    """
    connection.execute(
        "UPDATE owner SET has_workers = CASE WHEN %s = 1 THEN has_workers ELSE 0 END,"
        " oldest_schema = %s",
        (int(keeps), OLDEST_SCHEMA),
    )
    connection.execute(
        "UPDATE worker SET is_ended = 1 WHERE is_ended = 0 AND (schema < %s OR %s = 0)",
        (OLDEST_SCHEMA, int(keeps)),
    )


def numbers(tx: Transaction) -> Sequence[int] | None:
    """Return the numbers of live workers; None if no owner leaves turns to workers."""
    (leaves,) = tx.one("SELECT has_workers FROM owner")
    if not leaves:
        return None
    return [number for (number,) in tx.all("SELECT id FROM worker WHERE is_ended = 0")]


def leave_turns(tx: Transaction) -> None:
    """Leave turns to workers from now on."""
    tx.run("UPDATE owner SET has_workers = 1")


def alive(tx: Transaction) -> Sequence[WorkerInfo]:
    """Return the live workers, oldest first."""
    return [_info(row) for row in tx.all(f"{_WORKERS} WHERE is_ended = 0 ORDER BY id")]


def ended(tx: Transaction, within_s: float) -> Sequence[WorkerInfo]:
    """Return ended workers with a heartbeat within the last `within_s` seconds."""
    rows = tx.all(
        f"{_WORKERS} WHERE is_ended = 1 AND seen_at > {NOW} - ?::double precision ORDER BY id",
        (within_s,),
    )
    return [_info(row) for row in rows]


def _info(row: Row) -> WorkerInfo:
    number, name, began_at, seen_s, state, schema, is_ended = row
    seen_s = max(0.0, float(seen_s))
    return WorkerInfo(number, name, began_at, seen_s, json.loads(state), schema, bool(is_ended))


def end(tx: Transaction, number: int) -> None:
    """Mark a worker as ended, because it has stopped or is declared dead."""
    tx.run("UPDATE worker SET is_ended = 1 WHERE id = ?", (number,))


def silent(tx: Transaction, lease_s: float) -> Sequence[WorkerInfo]:
    """Return the live workers without a heartbeat for `lease_s` seconds."""
    return [worker_info for worker_info in alive(tx) if worker_info.seen_s > lease_s]


def name_of(tx: Transaction, number: int) -> str:
    row = tx.first("SELECT name FROM worker WHERE id = ?", (number,))
    return "?" if row is None else str(row[0])


def end_connections(tx: Transaction, name: str) -> None:
    """End the connections of a worker's process, which releases their locks."""
    tx.all(f"{END_CONNECTIONS}?", (application_name(name),))


def ended_with_turns(tx: Transaction) -> list[int]:
    """Return the numbers of ended workers that have claimed unfinished turns."""
    rows = tx.all(
        "SELECT DISTINCT worker FROM turn WHERE state IN ('running', 'waiting')"
        " AND is_claimed = 1 AND worker IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM worker WHERE worker.id = turn.worker AND is_ended = 0)"
    )
    return [number for (number,) in rows]


def forget_old(tx: Transaction) -> None:
    """Delete workers without a heartbeat for a day, and the marks of their connections."""
    rows = tx.all(
        "DELETE FROM worker WHERE is_ended = 1 AND seen_at < ? RETURNING id",
        (time.time() - _KEPT_S,),
    )
    for (number,) in rows:
        commit_mark.remove_rows(tx, first_slot(number), first_slot(number + 1))
