"""The owner, who allows whatever Kore asks for."""

import asyncio
import random

from tests.crash.jobs import OWNER
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_chats import ChatMessage

_LATEST_S = 0.15
_LOOK_S = 0.003


class PressingOwner:
    """`run` presses until it is cancelled; `pressed` are the messages that had a button."""

    def __init__(self, api: BotApi, seed: int) -> None:
        self._api = api
        self._chance = random.Random(seed)
        self.pressed: set[int] = set()

    def unpressed(self) -> list[ChatMessage]:
        """Questions that the owner sees and has not answered."""
        return [
            shown
            for shown in self._api.chat(OWNER)
            if shown.from_bot and shown.reply_markup and shown.message_id not in self.pressed
        ]

    async def run(self) -> None:
        """Allow whatever is asked, some time after it is seen, whether a gateway lives or not."""
        while True:
            # One at a time: an answer may take away the buttons of a copy.
            for shown in self.unpressed()[:1]:
                once = shown.reply_markup["inline_keyboard"][0][0]["callback_data"]
                await asyncio.sleep(self._chance.uniform(0.0, _LATEST_S))
                self.pressed.add(shown.message_id)
                await self._api.user_presses(OWNER, shown.message_id, once)
            await asyncio.sleep(_LOOK_S)
