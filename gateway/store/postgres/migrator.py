"""Bringing a PostgreSQL database up to this Kore: the numbered files that it has not seen.

The numbers are those of SQLite's migrations. All that wait are one transaction, so that a kill
leaves a database of before or after them; a copy is made by `kore backup` or by PostgreSQL's own
tools, not by an upgrade.
"""

import time
from pathlib import Path

from gateway.store.errors import StoreError
from gateway.store.port import Transaction
from gateway.store.postgres import commit_mark

# The oldest newest migration of a program that may work on these tables as a worker: a migration
# that it would not understand (a column that is gone, a condition that is new) counts this up.
OLDEST_SCHEMA = 83
# Without views, and without what extensions bring along (`pg_stat_statements`).
_TABLES = (
    "SELECT relname FROM pg_class"
    " WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
    " AND relkind IN ('r', 'p') AND NOT EXISTS (SELECT 1 FROM pg_depend"
    " WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e')"
)


def scripts() -> dict[int, Path]:
    """Every migration that this Kore knows, by its number, in their order."""
    folder = Path(__file__).parent / "migrations"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return {int(name[:4]): folder / name for name in names}


def table_names(tx: Transaction) -> frozenset[str]:
    """Tables that this database has."""
    return frozenset(name for (name,) in tx.all(_TABLES))


def newest() -> int:
    """The newest migration that this Kore knows."""
    return max(scripts())


def require_current(tx: Transaction, place: str) -> None:
    """For a process that upgrades nothing. Raises `StoreError` for tables that are older than this
    Kore, or so new that it may not work on them."""
    tables = table_names(tx)
    if "worker" not in tables:
        raise StoreError(
            "the database {path} has no tables for workers yet",
            path=place,
            hint="Start `kore gateway --workers 0` of this version first: it makes them.",
        )
    (schema,) = tx.one("SELECT max(number) FROM migration")
    (oldest,) = tx.one("SELECT oldest_schema FROM owner")
    if schema < newest() or newest() < oldest:
        raise StoreError(
            "the database {path} is of another version of Kore (schema {found}; this version"
            " supports {supported})",
            path=place,
            found=schema,
            supported=newest(),
            hint="Upgrade the gateway first, then its workers.",
        )


def upgrade(tx: Transaction, place: str) -> None:
    """In the transaction. Raises `StoreError` for a database of a newer Kore, or one that holds
    something else."""
    # Two processes that start at once do not upgrade at once.
    tx.all("SELECT pg_advisory_xact_lock(hashtext('kore upgrade'))")
    available, tables = scripts(), table_names(tx)
    if tables and "migration" not in tables:
        raise StoreError(
            "the database {path} holds tables of another program",
            path=place,
            hint="Create a database for Kore alone (`createdb kore`) and name it in store.url.",
        )
    tx.run(
        "CREATE TABLE IF NOT EXISTS migration"
        " (number bigint PRIMARY KEY, applied_at double precision NOT NULL)"
    )
    tx.run(commit_mark.TABLE)
    applied = {number for (number,) in tx.all("SELECT number FROM migration")}
    if applied and max(applied) > max(available):
        raise StoreError(
            "the database {path} was created by a newer Kore (schema {found}; this version"
            " supports {supported})",
            path=place,
            found=max(applied),
            supported=max(available),
            hint="Install the newer version again.",
        )
    for number, script in available.items():
        if number not in applied:
            tx.run(script.read_text("utf-8"))
            tx.run(
                "INSERT INTO migration (number, applied_at) VALUES (?, ?)", (number, time.time())
            )
