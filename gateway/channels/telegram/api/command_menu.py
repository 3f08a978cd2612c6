"""Command menu of the bot, per scope and language.

https://core.telegram.org/bots/api#setmycommands
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import telegram

from agent.i18n import ENGLISH, t, use_locale_once
from agent.version import VERSION
from gateway.channels.state import ChannelState
from gateway.channels.telegram.api.request import Refusal
from gateway.channels.telegram.settings import TelegramSettings
from gateway.core.records import MenuAudience

# Telegram's tags have two letters, so all readers of Chinese get the menu in simplified characters.
_LANGUAGES = ((None, ENGLISH), ("zh", "zh-Hans"))


async def set_menus(bot: telegram.Bot, settings: TelegramSettings, memo: ChannelState) -> None:
    """Set the menus unless they are unchanged. Raises `TelegramError`."""
    # Compared without translations, which would have to be loaded at each start.
    menu = [(command.name, command.summary, command.audience) for command in settings.menu]
    content = json.dumps([VERSION, settings.root, settings.owner, menu])
    mark = hashlib.sha256(content.encode()).hexdigest()
    name = f"menu:telegram:{settings.account}"
    if await memo.get(name) == mark:
        return
    for scope, language, commands in _menus(settings):
        try:
            await bot.set_my_commands(
                [telegram.BotCommand(*command) for command in commands],
                scope=telegram.BotCommandScope.de_json(dict(scope), bot),
                language_code=language,
            )
        except Refusal as exc:
            # The owner may never have written to this bot.
            if exc.code != 400 or scope["type"] != "chat":
                raise
    await memo.put(name, mark)


def _menus(
    settings: TelegramSettings,
) -> Iterator[tuple[dict[str, Any], str | None, list[tuple[str, str]]]]:
    """Yield scope, language, and (name, description) of each command."""
    scopes: list[tuple[dict[str, Any], Sequence[MenuAudience]]] = [
        ({"type": "default"}, ("everyone", "private")),
        ({"type": "all_group_chats"}, ("everyone",)),
    ]
    if settings.owner is not None:
        scope = {"type": "chat", "chat_id": int(settings.owner)}
        scopes.append((scope, ("everyone", "private", "owner")))
    for tag, language in _LANGUAGES:
        with use_locale_once(language):
            menus = [(scope, list(_commands(settings, audiences))) for scope, audiences in scopes]
        for scope, commands in menus:
            yield scope, tag, commands


def _commands(
    settings: TelegramSettings, audiences: Sequence[MenuAudience]
) -> Iterator[tuple[str, str]]:
    for command in settings.menu:
        if command.audience in audiences:
            # Telegram does not allow hyphens in names; the other spelling is an alias.
            yield command.name.replace("-", "_"), _sentence(t(command.summary))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
