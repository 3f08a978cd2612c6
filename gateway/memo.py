"""What a channel remembers over a restart."""

from contextlib import suppress

from gateway.store import memo
from gateway.store.database import Database
from gateway.store.faults import NotNow


class StoredMemo:
    """In the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, name: str) -> str | None:
        return await self._database.run(memo.get, name)

    async def put(self, name: str, value: str) -> None:
        # On a full disk it is forgotten, as the caller is ready for.
        with suppress(NotNow):
            await self._database.run(memo.put, name, value)
