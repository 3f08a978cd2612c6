"""What a disk does to a database, and what a kill leaves behind, at one chosen statement."""

from gateway.store.port import Transaction


def refuse(tx: Transaction, writes: str, reason: str, when: str = "") -> None:
    """Until `allow`, the database refuses such writes: INSERT ON message, UPDATE OF state ON turn.

    `when` says of which rows, by the columns of NEW.
    """
    condition = f" WHEN {when}" if when else ""
    tx.run(
        f"CREATE TEMP TRIGGER refused BEFORE {writes}{condition}"
        f" BEGIN SELECT RAISE(ABORT, '{reason}'); END"
    )


def allow(tx: Transaction) -> None:
    tx.run("DROP TRIGGER refused")


def fill_disk(tx: Transaction) -> None:
    """Until `free_disk` the file cannot grow."""
    (pages,) = tx.one("PRAGMA page_count")
    tx.all(f"PRAGMA max_page_count = {pages}")


def free_disk(tx: Transaction) -> None:
    (pages,) = tx.one("PRAGMA page_count")
    tx.all(f"PRAGMA max_page_count = {pages + 1000}")


def root_page(tx: Transaction, table: str) -> int:
    """The number of the page in the file at which the table begins."""
    (page,) = tx.one("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    return int(page)


def empty_index(tx: Transaction) -> None:
    """The full-text index as before the version that brought it."""
    tx.run("INSERT INTO words (words) VALUES ('delete-all')")
    tx.run("DELETE FROM search_entry")
