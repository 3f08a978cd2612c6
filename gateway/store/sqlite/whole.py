"""Exclusive access to a whole SQLite database, for copying."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gateway.store.cipher import Cipher
from gateway.store.copying import ENGINE_TABLES, TableColumns, Tables
from gateway.store.port import Transaction
from gateway.store.sqlite.engine import connect, mapped_error
from gateway.store.sqlite.transaction import SqliteTransaction

_TABLES = (
    "SELECT s.name, c.name, c.pk FROM sqlite_schema s, pragma_table_info(s.name) c"
    " WHERE s.type = 'table' ORDER BY s.name, c.pk"
)


class WholeSqlite:
    """Implements `gateway.store.copying.WholeDatabase`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def opened(self, cipher: Cipher | None) -> Iterator[SqliteTransaction]:
        """Open a transaction on the whole database, committed at the end of the block.

        Raises `StoreError`.
        """
        try:
            with closing(connect(self.path, check=True, cipher=cipher)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("PRAGMA defer_foreign_keys=ON")
                yield SqliteTransaction(connection, cipher)
                connection.execute("COMMIT")
        except sqlite3.Error as exc:
            raise mapped_error(exc, self.path) from exc

    def tables(self, tx: Transaction) -> Tables:
        columns, keys = dict[str, list[str]](), dict[str, list[str]]()
        for table, column, place in tx.all(_TABLES):
            if table not in ENGINE_TABLES:
                columns.setdefault(table, []).append(column)
                if place:
                    keys.setdefault(table, []).append(column)
        return {
            name: TableColumns(tuple(sorted(columns[name])), tuple(keys[name]))
            for name in sorted(columns)
        }

    def newest_delivery(self, tx: Transaction) -> int:
        row = tx.first("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'")
        return int(row[0]) if row is not None else 0

    def finish(self, tx: Transaction, newest_delivery: int) -> None:
        """Continue the numbering of new rows after copied rows and deleted rows of the source."""
        newest = max(newest_delivery, self.newest_delivery(tx))
        tx.run("DELETE FROM sqlite_sequence WHERE name = 'outbox'")
        tx.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('outbox', ?)", (newest,))
