"""What became of a commit whose answer was lost.

Each connection has a row of its own, and every transaction that stores something writes its number
there. The server's own record (`pg_xact_status`) does not do: one that crashed has forgotten the
numbers of what it had not stored, and gives them to other transactions.
"""

from dataclasses import dataclass

import psycopg

from gateway.store.port import Row, Transaction

_WRITE = (
    "UPDATE last_commit SET epoch = %s, number = %s WHERE slot = %s"
    " AND pg_current_xact_id_if_assigned() IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class CommitMark:
    """One transaction of the process `epoch`, on the connection `slot`."""

    slot: int
    epoch: int
    number: int

    def write(self, connection: "psycopg.Connection[Row]") -> bool:
        """As the last statement of the transaction; False where it has changed nothing."""
        values = (self.epoch, self.number, self.slot)
        return connection.execute(_WRITE, values).rowcount == 1

    def is_stored(self, connection: "psycopg.Connection[Row]") -> bool:
        """Waits while the server has not noticed that nobody is left at the transaction, which has
        locked the row."""
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            row = connection.execute(
                "SELECT epoch, number FROM last_commit WHERE slot = %s FOR UPDATE", (self.slot,)
            ).fetchone()
        return row == (self.epoch, self.number)


def add_rows(connection: "psycopg.Connection[Row]", first: int, slots: int) -> None:
    """One for each connection, from slot `first` on; those that are there stay."""
    connection.execute(
        "INSERT INTO last_commit SELECT slot, 0, 0 FROM generate_series(%s, %s) slot"
        " ON CONFLICT DO NOTHING",
        (first, first + slots - 1),
    )


def remove_rows(tx: Transaction, first: int, behind: int) -> None:
    """Those of connections that are no more, from slot `first` to the one before `behind`."""
    tx.run("DELETE FROM last_commit WHERE slot >= ? AND slot < ?", (first, behind))
