"""Stored rows for tests: reads and changes by the values of a table's columns.

Tests outside of the store's own contain no SQL: statements are built here from names and values.
"""

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.store.port import Row, Store, Transaction
from gateway.store.postgres.connection import connect
from gateway.store.postgres.transaction import PostgresTransaction
from tests import postgres_server


@dataclass(frozen=True)
class Condition:
    """Condition on a column other than equality."""

    operator: str
    value: object = None


PRESENT = Condition("IS NOT NULL")


def unlike(value: object) -> Condition:
    return Condition("<> ?", value)


def above(value: object) -> Condition:
    return Condition("> ?", value)


def below(value: object) -> Condition:
    return Condition("< ?", value)


def like(pattern: str) -> Condition:
    """Match `pattern` as in SQL, where % matches any text."""
    return Condition("LIKE ?", pattern)


def unmatched(pattern: str) -> Condition:
    return Condition("NOT LIKE ?", pattern)


def read(
    tx: Transaction,
    table: str,
    *columns: str,
    order: str = "",
    distinct: bool = False,
    **where: Any,
) -> list[Row]:
    """Return `columns` of the rows that match all columns in `where`.

    Without `columns`, rows have all columns. None in `where` means NULL.
    """
    return tx.all(*_query(table, columns, order, distinct, where))


def read_file(file: Path, table: str, *columns: str, order: str = "", **where: Any) -> list[Row]:
    """Return matching rows of a closed database file, or of PostgreSQL used in its place."""
    if postgres_server.engine() == "postgres":
        address = postgres_server.database_of(file)
        return read_postgres(address, table, *columns, order=order, **where)
    return read_sqlite(file, table, *columns, order=order, **where)


def read_sqlite(file: Path, table: str, *columns: str, order: str = "", **where: Any) -> list[Row]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(*_query(table, columns, order, False, where)).fetchall()


def read_postgres(
    address: str, table: str, *columns: str, order: str = "", **where: Any
) -> list[Row]:
    """Return matching rows while a Kore may own the database."""
    with closing(connect(address)) as server:
        # At a stricter level this could make a transaction of that Kore fail, or fail itself.
        server.execute("SET default_transaction_isolation = 'read committed'")
        return read(PostgresTransaction(server), table, *columns, order=order, **where)


def count(tx: Transaction, table: str, **where: Any) -> int:
    return int(read(tx, table, "count(*)", **where)[0][0])


def change(tx: Transaction, table: str, values: Mapping[str, object], **where: Any) -> int:
    """Set the `values` and return the number of changed rows."""
    conditions, condition_values = _conditions(where)
    sets = ", ".join(f"{column} = ?" for column in values)
    return tx.run(f"UPDATE {table} SET {sets}{conditions}", [*values.values(), *condition_values])


def add(tx: Transaction, table: str, **values: object) -> None:
    marks = ", ".join("?" for _ in values)
    tx.run(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", [*values.values()])


def delete(tx: Transaction, table: str) -> None:
    """Delete all rows of the table."""
    tx.run(f"DELETE FROM {table}")


class StoredRows:
    """Row access through a store, in a transaction for each call."""

    database: Store

    async def stored(self, table: str, *columns: str, **where: Any) -> list[Row]:
        return await self.database.transact(read, table, *columns, **where)

    async def count(self, table: str, **where: Any) -> int:
        return await self.database.transact(count, table, **where)

    async def until_stored(
        self, table: str, *columns: str, deadline_s: float = 30, **where: Any
    ) -> Row:
        """Return the first matching row once it exists."""
        async with asyncio.timeout(deadline_s):
            while not (rows := await self.stored(table, *columns, **where)):
                await asyncio.sleep(0.005)
        return rows[0]

    async def until_count(self, number: int, table: str, **where: Any) -> None:
        async with asyncio.timeout(30):
            while await self.count(table, **where) != number:
                await asyncio.sleep(0.005)

    async def change(self, table: str, values: Mapping[str, object], **where: Any) -> None:
        await self.database.transact(change, table, values, **where)

    async def add(self, table: str, **values: object) -> None:
        await self.database.transact(add, table, **values)

    async def delete(self, table: str) -> None:
        await self.database.transact(delete, table)

    async def transaction_ends(self) -> None:
        """Wait until all work already passed to the store is done."""
        await self.database.transact(lambda tx: None)


def _query(
    table: str, columns: tuple[str, ...], order: str, distinct: bool, where: Mapping[str, Any]
) -> tuple[str, list[object]]:
    conditions, values = _conditions(where)
    ordered = f" ORDER BY {order}" if order else ""
    names = ", ".join(columns) or "*"
    only = "DISTINCT " if distinct else ""
    return f"SELECT {only}{names} FROM {table}{conditions}{ordered}", values


def _conditions(where: Mapping[str, Any]) -> tuple[str, list[object]]:
    """Return ` WHERE …` or an empty text, and its values."""
    parts: list[str] = []
    values: list[object] = []
    for column, value in where.items():
        if value is None:
            parts.append(f"{column} IS NULL")
        elif isinstance(value, Condition):
            parts.append(f"{column} {value.operator}")
            values += [value.value] if "?" in value.operator else []
        else:
            parts.append(f"{column} = ?")
            values.append(value)
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), values
