"""The store, which runs all work twice: a function that changes memory in a transaction shows."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gateway.store.sqlite.engine import SqliteStore

T = TypeVar("T")


class RehearsingStore(SqliteStore):
    """Rolls the first run of each function back and drops what it leaves to do after the commit.

    The store itself does the same when another of a group's transactions fails for all.
    """

    def _run(self, work: Callable[[Any], T]) -> tuple[T, Sequence[Callable[[], None]]]:
        self._connection.execute("SAVEPOINT rehearsal")
        try:
            super()._run(work)
        except sqlite3.Error:  # a full disk may have ended the whole transaction
            raise
        except Exception:  # noqa: BLE001 - what the second run raises reaches the caller
            pass
        self._connection.execute("ROLLBACK TO rehearsal")
        self._connection.execute("RELEASE rehearsal")
        return super()._run(work)
