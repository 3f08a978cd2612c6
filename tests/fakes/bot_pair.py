"""A fake Bot API with two bots at one address, which may share chats."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.fakes.bot_api import BotApi
from tests.fakes.bot_methods import BotMethods

SECOND_TOKEN = "654321:token-of-the-second"
SECOND = {"id": 43, "is_bot": True, "first_name": "Second", "username": "second_test_bot"}


class BotPair(BotApi):
    """Fake of the first bot, with `second` for the second bot.

    Both see the same messages in the same chats; each has its own updates, calls and journal. Enter
    only this object as a context manager.
    """

    def __init__(self) -> None:
        super().__init__()
        second = self.second = BotApi(SECOND_TOKEN)
        second.chats = self.chats.share(SECOND)
        second.methods = BotMethods(second.chats, second.updates, second.files)

    @property
    def pending_updates(self) -> list[int]:
        return [*super().pending_updates, *self.second.pending_updates]

    async def all_hear(self, chat_id: int, text: str, **more: Any) -> Mapping[str, Any]:
        """Write in a group with both bots, and deliver the message to both; return it."""
        user_message = await self.user_says(chat_id, text, **more)
        shown = self.chats.get(chat_id, user_message.message_id)
        assert shown is not None
        message = self.chats.message_json(shown)
        await self.second.user_says(chat_id, text, raw={"message": message})
        return message

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] == self.second.token:
            return await self.second._handle(request)
        return await super()._handle(request)

    async def _give(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] == self.second.token:
            return await self.second._give(request)
        return await super()._give(request)

    async def __aexit__(self, *exc_info: object) -> None:
        self.second._stopping.set()
        self.second.changed()
        await super().__aexit__(*exc_info)
