"""Faults of a database at a chosen statement, as from a disk error or a kill."""

from gateway.store.port import Transaction
from gateway.store.postgres.transaction import PostgresTransaction

_RAISE = "CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {raise_}; END $$"


def refuse(tx: Transaction, writes: str, reason: str, when: str = "") -> None:
    """Reject writes such as INSERT ON message or UPDATE OF state ON turn, until `allow`.

    `when` is a condition on the rows, by the columns of NEW.
    """
    if isinstance(tx, PostgresTransaction):
        condition = f" WHEN ({when})" if when else ""
        tx.run(_RAISE.format(raise_=f"RAISE EXCEPTION '{reason}'"))
        tx.run(
            f"CREATE TRIGGER refused BEFORE {writes} FOR EACH ROW{condition}"
            " EXECUTE FUNCTION refused()"
        )
        return
    condition = f" WHEN {when}" if when else ""
    tx.run(
        f"CREATE TEMP TRIGGER refused BEFORE {writes}{condition}"
        f" BEGIN SELECT RAISE(ABORT, '{reason}'); END"
    )


def allow(tx: Transaction) -> None:
    if isinstance(tx, PostgresTransaction):
        tx.run("DROP FUNCTION refused CASCADE")
    else:
        tx.run("DROP TRIGGER refused")


def fill_disk(tx: Transaction) -> None:
    """Stop the file from growing until `free_disk`; PostgreSQL rejects every new row."""
    if isinstance(tx, PostgresTransaction):
        tx.run(_RAISE.format(raise_="RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'"))
        for table in ("inbox", "message", "outbox", "session", "step", "turn"):
            tx.run(f"CREATE TRIGGER refused BEFORE INSERT ON {table} EXECUTE FUNCTION refused()")
        return
    (pages,) = tx.one("PRAGMA page_count")
    tx.all(f"PRAGMA max_page_count = {pages}")


def free_disk(tx: Transaction) -> None:
    if isinstance(tx, PostgresTransaction):
        allow(tx)
        return
    (pages,) = tx.one("PRAGMA page_count")
    tx.all(f"PRAGMA max_page_count = {pages + 1000}")


def root_page(tx: Transaction, table: str) -> int:
    """Return the number of the first page of the table in SQLite's file."""
    (page,) = tx.one("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    return int(page)


def empty_index(tx: Transaction) -> None:
    """Empty the full-text index, as before the version that introduced it."""
    tx.search.clear()
    tx.run("DELETE FROM search_entry")
