"""Exclusive access to a whole PostgreSQL database, for copying or a change of keys."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from gateway.core.addresses import public_address
from gateway.store.cipher import SEALED, Cipher, Sealed
from gateway.store.copying import ENGINE_TABLES, TableColumns, Tables
from gateway.store.errors import StoreError
from gateway.store.port import Transaction
from gateway.store.postgres import ownership, worker_table
from gateway.store.postgres.connection import connect_first
from gateway.store.postgres.errors import mapped, run_alone
from gateway.store.postgres.migrator import SCHEMA, table_names, upgrade
from gateway.store.postgres.transaction import PostgresTransaction
from gateway.store.repositories.conversations import search
from gateway.store.sealing import check_key, key_mark, mark_sealed, resealed

_COLUMNS = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"
)
_KEYS = (
    "SELECT k.table_name, k.column_name FROM information_schema.key_column_usage k"
    " JOIN information_schema.table_constraints c USING (constraint_schema, constraint_name)"
    " WHERE c.table_schema = current_schema() AND c.constraint_type = 'PRIMARY KEY'"
    " ORDER BY k.table_name, k.ordinal_position"
)
_NUMBERED = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND is_identity = 'YES'"
)


class WholePostgres:
    """Implements `gateway.store.copying.WholeDatabase`."""

    def __init__(self, address: str) -> None:
        self.address = address

    @contextmanager
    def opened(self, cipher: Cipher | None) -> Iterator[PostgresTransaction]:
        """Open a transaction on the whole database, committed at the end of the block.

        Raises `StoreError`.
        """
        place = public_address(self.address)
        connection = connect_first(self.address)
        try:
            ownership.lock_data(connection, place, 0)
            with connection.transaction():
                tx = PostgresTransaction(connection)
                check_key(tx, place, cipher, table_names(tx))
                upgrade(tx, place)
            ownership.count_on(connection)
            ownership.stay(connection)
            # Meanwhile, workers must not store anything either.
            run_alone(connection, lambda: worker_table.begin_owner(connection, keeps=False))
            with connection.transaction():
                tx = PostgresTransaction(connection, cipher)
                tx.run("SET CONSTRAINTS ALL DEFERRED")
                yield tx
        except psycopg.Error as exc:
            raise mapped(exc) from exc
        finally:
            connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[PostgresTransaction]:
        """Open a transaction that reads a snapshot of the database.

        It works without owning the database and without its key. Raises `StoreError`.
        """
        connection = connect_first(self.address)
        try:
            with connection.transaction():
                # A deferrable transaction never fails because of another transaction.
                connection.execute("SET TRANSACTION READ ONLY, DEFERRABLE")
                tx = PostgresTransaction(connection)
                if "inbox" not in table_names(tx):
                    raise StoreError(
                        "{path} is not a Kore database", path=public_address(self.address)
                    )
                yield tx
        except psycopg.Error as exc:
            raise mapped(exc) from exc
        finally:
            connection.close()

    def tables(self, tx: Transaction) -> Tables:
        columns, keys = dict[str, list[str]](), dict[str, list[str]]()
        own = table_names(tx) - ENGINE_TABLES
        for query, lists in ((_COLUMNS, columns), (_KEYS, keys)):
            for table, column in tx.all(query):
                if table in own:
                    lists.setdefault(table, []).append(column)
        return {
            name: TableColumns(tuple(sorted(columns[name])), tuple(keys[name]))
            for name in sorted(columns)
        }

    def newest_delivery(self, tx: Transaction) -> int:
        sequence = tx.one("SELECT pg_get_serial_sequence('outbox', 'seq')")[0]
        last_value, is_used = tx.one(f"SELECT last_value, is_called FROM {sequence}")
        return int(last_value) if is_used else int(last_value) - 1

    def finish(self, tx: Transaction, newest_delivery: int) -> None:
        """Continue the numbering of new rows after the copied ones."""
        for table, column in tx.all(_NUMBERED):
            newest = newest_delivery if table == "outbox" else 0
            tx.all(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), greatest("
                f"coalesce((SELECT max({column}) FROM {table}), 0), ?::bigint) + 1, false)",
                (newest,),
            )

    def is_sealed(self) -> bool:
        """Return whether the texts are sealed. Raises `StoreError`."""
        connection = connect_first(self.address)
        try:
            tx = PostgresTransaction(connection)
            return key_mark(tx, table_names(tx)) is not None
        except psycopg.Error as exc:
            raise mapped(exc) from exc
        finally:
            connection.close()

    def rekey(self, old: Cipher | None, new: Cipher | None) -> int:
        """Seal all texts with `new` instead of `old` in one transaction; return the row count.

        The server's log and backups still contain the old texts. Raises `StoreError`.
        """
        with self.opened(old) as tx:
            sealing = tx.with_cipher(new)
            counts = {sealed.table: _reseal(sealed, tx, sealing) for sealed in SEALED}
            search.forget_all(tx)
            tx.run("DELETE FROM meta WHERE name = 'cipher'")
            mark_sealed(tx, new)
        return sum(counts.values())

    def schema(self) -> int:
        """Return the number of the newest migration, 0 before the first start.

        Raises `StoreError`, also for a schema that this Kore cannot open.
        """
        connection = connect_first(self.address)
        try:
            tx = PostgresTransaction(connection)
            if "migration" not in table_names(tx):
                return 0
            applied = [int(number) for (number,) in tx.all("SELECT number FROM migration")]
            SCHEMA.pending(applied, public_address(self.address))
            return max(applied)
        except psycopg.Error as exc:
            raise mapped(exc) from exc
        finally:
            connection.close()


def _reseal(sealed: Sealed, source: Transaction, target: Transaction) -> int:
    rows = source.all(sealed.select)
    for values in resealed(sealed, rows, source, target):
        if target.run(sealed.update, values) != 1:
            raise StoreError("a row of {table} was deleted meanwhile", table=sealed.table)
    return len(rows)
