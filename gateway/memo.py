"""What a channel remembers over a restart."""

from gateway.store import memo
from gateway.store.database import Database


class StoredMemo:
    """In the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, name: str) -> str | None:
        return await self._database.run(memo.get, name)

    async def put(self, name: str, value: str) -> None:
        await self._database.run(memo.put, name, value)
