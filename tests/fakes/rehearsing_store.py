"""A store that runs all work twice, to expose functions that change memory in a transaction."""

import sqlite3

from gateway.store.sqlite.engine import SqliteStore, StoreWork


class RehearsingStore(SqliteStore):
    """A store that rolls back each function's first run and drops its after-commit work.

    The store does the same itself when one transaction fails the commit of its whole group.
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
