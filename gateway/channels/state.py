"""What a channel remembers over a restart."""

from typing import Protocol


class ChannelState(Protocol):
    """Texts by name. One that cannot be stored is forgotten: `put` raises nothing for it."""

    async def get(self, name: str) -> str | None: ...
    async def put(self, name: str, value: str) -> None: ...


class InMemoryChannelState:
    """A `ChannelState` that remembers nothing over a restart."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        return self._known.get(name)

    async def put(self, name: str, value: str) -> None:
        self._known[name] = value
