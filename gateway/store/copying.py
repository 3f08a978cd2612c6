"""Copy of a whole database into another one, row by row, with a comparison afterwards.

No other process has either database open. The search index is left out and rebuilt at the next
search. Sealed texts are copied as they are, so both databases have the same key.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import zip_longest
from typing import Protocol

from agent.records import frozen
from gateway.store.cipher import Cipher
from gateway.store.errors import StoreError
from gateway.store.port import Row, Transaction
from gateway.store.repositories.conversations import search

# Specific to one engine, or rebuilt.
ENGINE_TABLES = frozenset(
    {
        *("migration", "owner", "worker", "last_commit", "active_channel", "queue_default"),
        *("job_number", "usage_reservation"),
        *("words", "words_config", "words_data", "words_idx", "sqlite_sequence", "search_entry"),
    }
)
_PAGE = 1000


@frozen
class TableColumns:
    """Columns of a table and of its key, which orders the rows."""

    columns: tuple[str, ...]
    key: tuple[str, ...]


Tables = Mapping[str, TableColumns]


class WholeDatabase(Protocol):
    """A database used by one process alone."""

    def opened(self, cipher: Cipher | None) -> AbstractContextManager[Transaction]:
        """Open one transaction on the whole database, which checks references at its end."""
        ...

    def tables(self, tx: Transaction) -> Tables:
        """Return the tables that every engine has, by name."""
        ...

    def newest_delivery(self, tx: Transaction) -> int:
        """Return the highest number that a row of the outbox ever had."""
        ...

    def finish(self, tx: Transaction, newest_delivery: int) -> None:
        """Finish after the last copied row.

        Numbering continues, so that no number of the source is used again.
        """
        ...


def check_empty(target: WholeDatabase, cipher: Cipher | None) -> None:
    """Raise `StoreError` unless the database is empty, so that a copy can be written to it."""
    with target.opened(cipher) as tx:
        _refuse_content(tx)


def copy_store(
    source: WholeDatabase, target: WholeDatabase, cipher: Cipher | None
) -> dict[str, int]:
    """Copy everything into an empty database; returns the number of rows per table.

    Raises `StoreError`; then the target is unchanged.
    """
    with source.opened(cipher) as reading:
        return copy_into(reading, source, target, cipher)


def copy_into(
    reading: Transaction, source: WholeDatabase, target: WholeDatabase, cipher: Cipher | None
) -> dict[str, int]:
    """Copy everything, like `copy_store`, from an open transaction on the source."""
    tables = source.tables(reading)
    with target.opened(cipher) as writing:
        if tables != target.tables(writing):
            raise StoreError("the two databases do not have the same tables")
        _refuse_content(writing)
        counts = {name: _copy(reading, writing, name, table) for name, table in tables.items()}
        search.forget_all(writing)
        target.finish(writing, source.newest_delivery(reading))
    return counts


def _copy(source: Transaction, target: Transaction, name: str, table: TableColumns) -> int:
    columns, marks = ", ".join(table.columns), ", ".join("?" for _ in table.columns)
    target.run(f"DELETE FROM {name}")
    for page in _pages(source, name, table):
        target.many(f"INSERT INTO {name} ({columns}) VALUES ({marks})", page)
    return _compare(source, target, name, table)


def _refuse_content(target: Transaction) -> None:
    for name in ("session", "inbox", "job"):
        if target.one(f"SELECT EXISTS (SELECT 1 FROM {name})")[0]:
            raise StoreError(
                "the database to copy into is not empty", hint="Name one that does not exist yet."
            )


def _pages(tx: Transaction, name: str, table: TableColumns) -> Iterator[list[Row]]:
    """Yield all rows in key order, a page at a time."""
    selected, key = ", ".join(table.columns), ", ".join(table.key)
    places = [table.columns.index(column) for column in table.key]
    marks = ", ".join("?" for _ in table.key)
    rows = tx.all(f"SELECT {selected} FROM {name} ORDER BY {key} LIMIT ?", (_PAGE,))
    while rows:
        yield rows
        last: Sequence[object] = [rows[-1][place] for place in places]
        rows = tx.all(
            f"SELECT {selected} FROM {name} WHERE ({key}) > ({marks}) ORDER BY {key} LIMIT ?",
            (*last, _PAGE),
        )


def _compare(source: Transaction, target: Transaction, name: str, table: TableColumns) -> int:
    """Return the number of rows. Raises `StoreError` for the first row that differs."""
    count = 0
    nothing: list[Row] = []
    pages = zip_longest(_pages(source, name, table), _pages(target, name, table), fillvalue=nothing)
    for ours, theirs in pages:
        for our_row, other in zip_longest(ours, theirs):
            if our_row != other:
                raise StoreError(
                    "row {n} of the table {table} is not the same in the copy; nothing was kept",
                    n=count + 1,
                    table=name,
                )
            count += 1
    return count
