"""Limit of the sub-agents of a conversation that run at a time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class ConversationSlots:
    """Semaphores by conversation, which exist only while they are in use."""

    def __init__(self) -> None:
        self._slots: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def hold(self, conversation: str, limit: int) -> AsyncGenerator[None]:
        """Hold a slot of the conversation, after a wait if `limit` slots are taken."""
        semaphore, users = self._slots.get(conversation, (asyncio.Semaphore(limit), 0))
        self._slots[conversation] = semaphore, users + 1
        try:
            async with semaphore:
                yield
        finally:
            semaphore, users = self._slots.pop(conversation)
            if users > 1:
                self._slots[conversation] = semaphore, users - 1
