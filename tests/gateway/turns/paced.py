"""Model that waits between its replies."""

import asyncio
import json
from collections.abc import AsyncIterator

from agent.events import ModelEvent
from agent.providers.base import ModelRequest
from agent.providers.scripted import reply_events
from agent.types import Message, ToolCall, assistant


class Paced:
    """Model that sends each reply after a call of `let_go`, and records its `requests`."""

    name = "paced"

    def __init__(self, *replies: Message | str) -> None:
        self.requests: list[ModelRequest] = []
        self._replies = list(replies)
        self._let_go = asyncio.Semaphore(0)
        self._news = asyncio.Condition()

    def let_go(self, replies: int = 1) -> None:
        for _ in range(replies):
            self._let_go.release()

    async def wait_for_request(self, times: int) -> None:
        async with asyncio.timeout(30), self._news:
            await self._news.wait_for(lambda: len(self.requests) >= times)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async with self._news:
            self.requests.append(request)
            self._news.notify_all()
        await self._let_go.acquire()
        reply = self._replies.pop(0)
        for event in reply_events(request, assistant(reply) if isinstance(reply, str) else reply):
            yield event

    async def aclose(self) -> None: ...


def list_dir_reply(id_: str = "1") -> Message:
    arguments = {"path": "."}
    return assistant("Let me see.", (ToolCall(id_, "list_dir", arguments, json.dumps(arguments)),))
