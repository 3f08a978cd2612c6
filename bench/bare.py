"""Baseline: a bot in a few lines, without any guarantees.

`python -m bench.bare once MODEL_URL TEXT` asks and prints; `python -m bench.bare gateway BOT_URL
MODEL_URL` polls, asks and sends, each chat in order.
"""

import asyncio
import json
import sys
from typing import Any

import aiohttp

TOKEN = "123456:stand-in-token"


async def ask(session: aiohttp.ClientSession, model_url: str, text: str) -> str:
    """Request one streamed chat completion."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
    chunks = []
    async with session.post(f"{model_url}/v1/chat/completions", json=body) as response:
        async for line in response.content:
            if line.startswith(b"data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    chunks.append(choice["delta"].get("content") or "")
    return "".join(chunks)


async def once(model_url: str, text: str) -> None:
    async with aiohttp.ClientSession() as session:
        print(await ask(session, model_url, text))


class Gateway:
    """Gateway with long polling, a task per chat, and no memory."""

    def __init__(self, session: aiohttp.ClientSession, bot_url: str, model_url: str) -> None:
        self._session = session
        self._bot = f"{bot_url}/bot{TOKEN}"
        self._model = model_url
        self._chats: dict[int, asyncio.Queue[str]] = {}

    async def run(self) -> None:
        offset = 0
        async with asyncio.TaskGroup() as group:
            while True:
                for update in await self._call("getUpdates", offset=offset, timeout=25):
                    offset = update["update_id"] + 1
                    chat = update["message"]["chat"]["id"]
                    if chat not in self._chats:
                        self._chats[chat] = asyncio.Queue()
                        group.create_task(self._answer(chat))
                    self._chats[chat].put_nowait(update["message"]["text"])

    async def _answer(self, chat: int) -> None:
        while True:
            text = await ask(self._session, self._model, await self._chats[chat].get())
            await self._call("sendMessage", chat_id=chat, text=text)

    async def _call(self, method: str, **parameters: Any) -> Any:
        async with self._session.post(f"{self._bot}/{method}", json=parameters) as response:
            return (await response.json())["result"]


async def gateway(bot_url: str, model_url: str) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await Gateway(session, bot_url, model_url).run()


if __name__ == "__main__":
    asyncio.run({"once": once, "gateway": gateway}[sys.argv[1]](*sys.argv[2:]))
