"""Connections of a bot: one for polls, which may be rebuilt, and one for everything else."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import telegram

from gateway.channels.state import ChannelState
from gateway.channels.telegram.api.request import AiohttpRequest, UnreadableResponse, message_id_of
from gateway.channels.telegram.settings import Bot, TelegramSettings
from gateway.core.messages import Media, OutboundPart

BATCH_LIMIT = 100
_KINDS = [
    *("message", "edited_message", "callback_query", "my_chat_member"),
    "stopped_message_generation",
]


class TelegramClient:
    """Client for the Bot API.

    `bot` is for sending. Polls bypass it, because it fails to decode a whole batch if one update is
    bad.
    """

    def __init__(self, settings: TelegramSettings) -> None:
        # At a lower level the library logs message bodies, and URLs with the token.
        logging.getLogger("telegram").setLevel(logging.WARNING)
        self._settings = settings
        self._polls = AiohttpRequest(settings)
        self._sends = AiohttpRequest(settings)
        self.bot = telegram.Bot(
            settings.token,
            base_url=f"{settings.root}/bot",
            request=self._sends,
            get_updates_request=self._polls,
        )

    async def get_updates(
        self, offset: int | None, limit: int = BATCH_LIMIT, *, at_once: bool = False
    ) -> Sequence[Any]:
        """Return raw updates, oldest first; this confirms everything before `offset`.

        Waits for updates unless `at_once`. https://core.telegram.org/bots/api#getupdates
        """
        wait_s = 0 if at_once else self._settings.poll_s
        parameters = {"timeout": wait_s, "limit": limit, "allowed_updates": _KINDS}
        if offset is not None:
            parameters["offset"] = offset
        url = f"{self._settings.root}/bot{self._settings.token}/getUpdates"
        result = await self._polls.call(url, parameters, wait_s)
        if not isinstance(result, list):
            raise UnreadableResponse("the result of getUpdates is not a list", b"")
        return result

    async def rebuild_polls(self) -> None:
        """Rebuild the polls' connection; running sends are not affected."""
        await self._polls.shutdown()

    async def who_am_i(self) -> Bot:
        me = await self.bot.get_me()
        return Bot(me.id, me.username or "")

    async def set_menu(self, memo: ChannelState) -> None:
        from gateway.channels.telegram.api.command_menu import set_menus

        await set_menus(self.bot, self._settings, memo)

    async def set_webhook(self) -> None:
        settings = self._settings
        # One call at a time; otherwise a chat's second message could be stored before its first.
        await self.bot.set_webhook(
            settings.hook_url,
            max_connections=1,
            secret_token=settings.hook_secret,
            allowed_updates=_KINDS,
        )

    async def webhook_info(self) -> telegram.WebhookInfo:
        return await self.bot.get_webhook_info()

    async def fetch(self, media: Media, into: BinaryIO, limit_bytes: int) -> None:
        """Write a received file. Raises `NotFetched`, and `OSError` of `into`."""
        from gateway.channels.telegram.api.download import fetch

        await fetch(self._settings, self._sends, media, into, limit_bytes)

    async def send_message(self, parameters: Mapping[str, Any]) -> int:
        """Send a message and return its id, for which the library would parse the whole message.

        https://core.telegram.org/bots/api#sendmessage
        """
        return message_id_of(await self.call("sendMessage", parameters))

    async def send_rich_message(self, parameters: Mapping[str, Any]) -> int:
        """Send a rich message and return its id.

        https://core.telegram.org/bots/api#sendrichmessage
        """
        return message_id_of(await self.call("sendRichMessage", parameters))

    async def call(self, method: str, parameters: Mapping[str, Any]) -> Any:
        """Return the raw result of a method that the library does not know, or parses slowly."""
        url = f"{self._settings.root}/bot{self._settings.token}/{method}"
        return await self._sends.call(url, parameters)

    async def send_files(self, target: Mapping[str, Any], part: OutboundPart) -> int:
        """Send files. Raises errors of the request layer, and `MessageRefused`."""
        from gateway.channels.telegram.api.upload import send_files

        return await send_files(self._settings, self._sends, target, part)

    async def remove_webhook(self) -> None:
        """Remove the webhook; Telegram keeps its pending updates for the polls."""
        await self.bot.delete_webhook(drop_pending_updates=False)

    async def aclose(self) -> None:
        await self._polls.shutdown()
        await self._sends.shutdown()
