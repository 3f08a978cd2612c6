"""Outcome of a commit that the server did not acknowledge.

Each connection has its own row, and every transaction with changes writes its number there. The
server's own record (`pg_xact_status`) is not enough: after a crash, the server reuses the numbers
of lost transactions.
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
    """Mark of a transaction: its `number` on connection `slot` of process `epoch`."""

    slot: int
    epoch: int
    number: int

    def write(self, connection: "psycopg.Connection[Row]") -> bool:
        """Write the mark as the transaction's last statement.

        Returns False, without writing it, for a transaction that has changed nothing.
        """
        values = (self.epoch, self.number, self.slot)
        return connection.execute(_WRITE, values).rowcount == 1

    def is_stored(self, connection: "psycopg.Connection[Row]") -> bool:
        """Return whether the transaction was committed.

        Waits until the server has ended a transaction whose client is gone, because that
        transaction has locked the row.
        """
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            row = connection.execute(
                "SELECT epoch, number FROM last_commit WHERE slot = %s FOR UPDATE", (self.slot,)
            ).fetchone()
        return row == (self.epoch, self.number)


def add_rows(connection: "psycopg.Connection[Row]", first: int, slots: int) -> None:
    """Add rows for `slots` connections, starting at slot `first`; keep existing rows."""
    connection.execute(
        "INSERT INTO last_commit SELECT slot, 0, 0 FROM generate_series(%s, %s) slot"
        " ON CONFLICT DO NOTHING",
        (first, first + slots - 1),
    )


def remove_rows(tx: Transaction, first: int, behind: int) -> None:
    """Remove the rows of closed connections, from slot `first` up to but excluding `behind`."""
    tx.run("DELETE FROM last_commit WHERE slot >= ? AND slot < ?", (first, behind))
