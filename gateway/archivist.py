"""The archivist: searches conversations, forks, names, pauses and closes them."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Concatenate, ParamSpec, TypeVar

from agent.errors import KoreError
from gateway.access import CONSOLE
from gateway.service import Found
from gateway.store import archive, search, sessions
from gateway.store.archive import Owner, Status
from gateway.store.database import Database
from gateway.store.search import Scope

P = ParamSpec("P")
T = TypeVar("T")

_DONE: dict[Status, str] = {
    "open": "Session {} goes on.",
    "paused": "Session {} is paused: what is said there waits.",
    "closed": "Session {} is closed: whoever was in it begins a new one.",
}


@dataclass(frozen=True, slots=True)
class Archivist:
    """Implements `gateway.service.Archive` for the owner of the machine, who may see all."""

    database: Database
    wake: Callable[[str], None]

    async def search(self, words: str, limit: int = 20) -> Sequence[Found]:
        while not await self.database.run(search.enter_older):
            pass
        return await self.database.run(search.find, words, Scope(), limit)

    async def fork(self, session: str) -> str:
        owner = Owner(f"{CONSOLE}:{os.getuid()}")
        return await self._with(archive.fork, session, owner, time.time())

    async def rename(self, session: str, name: str) -> str:
        kept = await self._with(archive.rename, session, name)
        return f"It is called {kept} now." if kept else "It has its automatic name again."

    async def set_status(self, session: str, status: Status) -> str:
        found, lanes = await self.database.run(_set_status, session, status)
        for lane in lanes:
            self.wake(lane)
        return _DONE[status].format(found)

    async def _with(
        self,
        act: Callable[Concatenate[Connection, str, P], T],
        session: str,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Do it to the session that `session` is, or begins."""

        def found(connection: Connection) -> T:
            return act(connection, sessions.find(connection, session), *args, **kwargs)

        return await self.database.run(found)


def _set_status(connection: Connection, session: str, status: Status) -> tuple[str, Sequence[str]]:
    found = sessions.find(connection, session)
    if status == "closed" and archive.is_at_work(connection, found):
        raise KoreError(
            f"session {found} is at work", hint="Stop it first, or wait for its answer."
        )
    return found, archive.set_status(connection, found, status)
