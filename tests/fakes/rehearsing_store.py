"""The store, which runs all work twice: a function that changes memory in a transaction shows."""

import sqlite3

from gateway.store.sqlite.engine import SqliteStore, StoreWork


class RehearsingStore(SqliteStore):
    """Rolls the first run of each function back and drops what it leaves to do after the commit.

    The store itself does the same when another of a group's transactions fails for all.
    """

    def _run(self, job: StoreWork) -> None:
        self._connection.execute("SAVEPOINT rehearsal")
        try:
            super()._run(job)
        except sqlite3.Error:  # a full disk may have ended the whole transaction
            raise
        except Exception:  # noqa: BLE001 - what the second run raises reaches the caller
            pass
        self._connection.execute("ROLLBACK TO rehearsal")
        self._connection.execute("RELEASE rehearsal")
        super()._run(job)
