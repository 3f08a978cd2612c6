"""Creation and upgrade of a PostgreSQL database.

Creating the tables, or applying all pending migrations, is one transaction: after a kill, the
database is in the old or in the new state. An upgrade makes no copy; use `kore backup` or
PostgreSQL's own tools.
"""

import time
from pathlib import Path

from gateway.store.errors import StoreError, catalogue_text
from gateway.store.port import Transaction
from gateway.store.schema import Schema, foreign

SCHEMA = Schema(Path(__file__).parent)
# Newest migration of the oldest program that may be a worker on these tables. Set it to the number
# of any migration that older programs would not understand, such as a removed column or a new
# condition.
OLDEST_SCHEMA = 91
# Excludes views and tables of extensions (`pg_stat_statements`).
_TABLES = (
    "SELECT relname FROM pg_class"
    " WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
    " AND relkind IN ('r', 'p') AND NOT EXISTS (SELECT 1 FROM pg_depend"
    " WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e')"
)


def table_names(tx: Transaction) -> frozenset[str]:
    return frozenset(name for (name,) in tx.all(_TABLES))


def require_current(tx: Transaction, place: str) -> None:
    """Check the tables for a process that does not upgrade them.

    Raises `StoreError` if they are older than this Kore, or too new for it.
    """
    tables = table_names(tx)
    if "worker" not in tables:
        raise StoreError(
            "the database {path} has no tables for workers yet",
            path=place,
            hint="Start `kore gateway --workers 0` of this version first: it creates them.",
        )
    (schema,) = tx.one("SELECT max(number) FROM migration")
    (oldest,) = tx.one("SELECT oldest_schema FROM owner")
    if schema < SCHEMA.newest or SCHEMA.newest < oldest:
        raise StoreError(
            "the database {path} is of another version of Kore (schema {found}; this version"
            " supports {supported})",
            path=place,
            found=schema,
            supported=SCHEMA.newest,
            hint="Upgrade the gateway first, then its workers.",
        )


def upgrade(tx: Transaction, place: str, schema: Schema = SCHEMA) -> None:
    """Create the tables of a new database, or apply pending migrations, in the transaction.

    Raises `StoreError` for a database that is newer, too old or of another program.
    """
    # Two processes that start at the same time upgrade one after the other.
    tx.all("SELECT pg_advisory_xact_lock(hashtext('kore upgrade'))")
    tables = table_names(tx)
    if not tables:
        tx.run(schema.tables)
        _note(tx, *schema.numbers)
        return
    if "migration" not in tables:
        hint = catalogue_text(
            "Create a database for Kore alone (`createdb kore`) and name it in store.url."
        )
        raise foreign(place, hint)
    applied = {number for (number,) in tx.all("SELECT number FROM migration")}
    for number, file in schema.pending(applied, place).items():
        tx.run(file.read_text("utf-8"))
        _note(tx, number)


def _note(tx: Transaction, *numbers: int) -> None:
    tx.many(
        "INSERT INTO migration (number, applied_at) VALUES (?, ?)",
        [(number, time.time()) for number in numbers],
    )
