"""Persistent state of a channel."""

from contextlib import suppress
from typing import Protocol

from gateway.store.errors import StoreBusy
from gateway.store.port import Store
from gateway.store.repositories import preferences


class ChannelState(Protocol):
    """Texts by name; a text that cannot be stored is dropped, and `put` does not raise."""

    async def get(self, name: str) -> str | None: ...
    async def put(self, name: str, value: str) -> None: ...


class InMemoryChannelState:
    """State in memory, lost at a restart."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        return self._values.get(name)

    async def put(self, name: str, value: str) -> None:
        self._values[name] = value


class StoreChannelState:
    """State in the database."""

    def __init__(self, database: Store) -> None:
        self._database = database

    async def get(self, name: str) -> str | None:
        return await self._database.transact(preferences.get_state, name)

    async def put(self, name: str, value: str) -> None:
        # On a full disk the text is dropped, which callers are prepared for.
        with suppress(StoreBusy):
            await self._database.transact(preferences.put_state, name, value)
