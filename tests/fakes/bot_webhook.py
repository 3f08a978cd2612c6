"""Telegram's side of a webhook: calls the URL and retries until the status is 200.

https://core.telegram.org/bots/api#setwebhook
"""

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from tests.fakes.bot_api import BotApi

_AGAIN_S = 0.05


class WebhookCaller:
    """Caller of the URL given to `setWebhook`, one update after the other, while `run` runs.

    `status_counts` counts the responses by status; 0 means no response.
    """

    def __init__(self, api: "BotApi", *, url: str | None = None) -> None:
        self._api = api
        self._url = url
        self.status_counts: Counter[int] = Counter()

    async def run(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                methods, waiting = self._api.methods, self._api.updates.pending
                if not methods.webhook_url or not waiting:
                    await self._api.news(0.02)
                    continue
                number, body = next(iter(waiting.items()))
                status = await self._call(session, body)
                self.status_counts[status] += 1
                if status == 200:
                    self._api.updates.confirm(number + 1)
                    self._api.changed()
                else:
                    text = f"Wrong response from the webhook: {status or 'no connection'}"
                    methods.webhook_trouble = (int(time.time()), text)
                    await asyncio.sleep(_AGAIN_S)

    async def _call(self, session: aiohttp.ClientSession, body: bytes) -> int:
        methods = self._api.methods
        headers = {
            "Content-Type": "application/json",
            "X-Telegram-Bot-Api-Secret-Token": methods.webhook_secret,
        }
        url = self._url or methods.webhook_url
        try:
            async with session.post(url, data=body, headers=headers) as response:
                return response.status
        except (aiohttp.ClientError, OSError):
            return 0
