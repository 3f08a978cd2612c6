"""The journal of file changes of a gateway: rows in its database, contents in its folder."""

import asyncio
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from gateway.store.cipher import Cipher
from gateway.store.database import Database

if TYPE_CHECKING:
    from sqlite3 import Connection

    from agent.changes.changes import Changes
    from agent.changes.ledger import Act, Ending
    from agent.changes.state import Step

P = ParamSpec("P")
T = TypeVar("T")


def changes_in(database: Database, folder: Path, cipher: Cipher | None) -> "Callable[[], Changes]":
    """Opens the journal when it is first needed. Call it where the database's loop runs."""
    loop = asyncio.get_running_loop()

    @cache
    def opened() -> "Changes":
        from agent.changes.blobs import Blobs, Seal
        from agent.changes.changes import Changes

        seal = Seal(cipher.shut, cipher.open, cipher.derived("undo")) if cipher else None
        return Changes(DatabaseLedger(database, loop), Blobs(folder, seal=seal))

    return opened


class DatabaseLedger:
    """Implements `agent.changes.Ledger`: hands each transaction over to the database's thread."""

    def __init__(self, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        self._database = database
        self._loop = loop

    def add(self, step: "Step") -> None:
        from gateway.store import changes

        self._run(changes.add, step)

    def steps(self, session: str) -> "list[Step]":
        from gateway.store import changes

        return self._run(changes.steps, session)

    def begin(self, act: "Act") -> "Act":
        from gateway.store import changes

        return self._run(changes.begin, act, time.time())

    def end(self, ending: "Ending") -> None:
        from gateway.store import changes

        self._run(changes.end, ending)

    def _run(
        self,
        work: "Callable[Concatenate[Connection, P], T]",
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        handed = self._database.run(work, *args, **kwargs)
        return asyncio.run_coroutine_threadsafe(handed, self._loop).result()
