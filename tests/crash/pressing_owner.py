"""An owner who approves every request."""

import asyncio
import random

from tests.crash.jobs import OWNER
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_chats import ChatMessage

_LATEST_S = 0.15
_POLL_INTERVAL_S = 0.003


class PressingOwner:
    """Owner whose `run` presses buttons until cancelled; `pressed` are message ids."""

    def __init__(self, api: BotApi, seed: int) -> None:
        self._api = api
        self._chance = random.Random(seed)
        self.pressed: set[int] = set()

    def unpressed(self) -> list[ChatMessage]:
        """Return the visible questions that the owner has not answered."""
        return [
            shown
            for shown in self._api.chat(OWNER)
            if shown.from_bot and shown.reply_markup and shown.message_id not in self.pressed
        ]

    async def run(self) -> None:
        """Approve each request some time after it is shown, whether a gateway is alive or not."""
        while True:
            # Press only one: an answer may remove the buttons of a copy.
            for shown in self.unpressed()[:1]:
                once = shown.reply_markup["inline_keyboard"][0][0]["callback_data"]
                await asyncio.sleep(self._chance.uniform(0.0, _LATEST_S))
                self.pressed.add(shown.message_id)
                await self._api.user_presses(OWNER, shown.message_id, once)
            await asyncio.sleep(_POLL_INTERVAL_S)
