"""A stand-in Bot API with two bots at one address, which may sit in the same chats."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.fakes.bot_api import BotApi
from tests.fakes.bot_methods import BotMethods

SECOND_TOKEN = "654321:token-of-the-second"
SECOND = {"id": 43, "is_bot": True, "first_name": "Second", "username": "second_test_bot"}


class BotPair(BotApi):
    """The first bot's stand-in, with `second` beside it.

    Both have the same messages in the same chats, each has updates, calls and a journal of its
    own. Enter this one alone.
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
        """Somebody writes in a group where both are, and are told everything; the message."""
        said = await self.user_says(chat_id, text, **more)
        shown = self.chats.get(chat_id, said.message_id)
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
