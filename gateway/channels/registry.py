"""The roster: which channels the configuration names, and who may write to them."""

import logging
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t
from agent.proxies.outbound import ensure_usable, proxy_for
from gateway.channels.base import Channel
from gateway.channels.chat_aliases import ChatIdAliases
from gateway.channels.chat_settings import ChatSettings, ChatSettingsIndex
from gateway.channels.state import StoreChannelState
from gateway.config import Settings
from gateway.config.foreign.python_plugins import call_offer, python_channels
from gateway.config.real_folder import real_folder
from gateway.core.messages import CONSOLE
from gateway.core.token_routes import API
from gateway.runtime.import_trimming import drop_docstrings, hidden, leave_out_httpx
from gateway.runtime.paths import DataDir
from gateway.store.port import Store
from gateway.store.repositories.access import members
from gateway.store.repositories.delivery import chats as stored_moves
from gateway.store.repositories.delivery import inbox

log = logging.getLogger(__name__)


async def places_of(settings: Settings, home: DataDir, database: Store) -> ChatSettingsIndex:
    """What is said of single chats, and which of them have another id by now. Raises
    `ConfigError`."""
    moves = ChatIdAliases(await database.transact(stored_moves.load_aliases, "telegram"))
    return ChatSettingsIndex({"telegram": telegram_chats(settings, home)}, {"telegram": moves})


def telegram_chats(settings: Settings, home: DataDir) -> dict[str, ChatSettings]:
    """What the configuration says of single chats. Raises `ConfigError` for a folder that no chat
    can work in."""
    return {
        key: ChatSettings(
            *(chat.persona, chat.model, chat.agent, chat.role, chat.listen),
            None if chat.folder is None else _chat_folder(key, chat.folder, settings, home),
        )
        for key, chat in settings.telegram.chats.items()
    }


def _chat_folder(chat: str, name: str, settings: Settings, home: DataDir) -> Path:
    """The real folder. Raises `ConfigError` for one that is not there, or holds more than a
    project: who may write in the chat may read it, as far as their role goes."""
    where = f"telegram.chats.{chat}.folder"
    folder = real_folder(where, name)
    if not folder.is_dir():
        raise ConfigError(
            t(
                "{where}: {path} is not there; create it or name another folder",
                where=where,
                path=folder,
            )
        )
    own = (home.root.resolve(), settings.agent.workspace.resolve())
    holds_more = any(place.is_relative_to(folder) for place in (Path.home().resolve(), *own))
    if holds_more or any(folder.is_relative_to(place) for place in own):
        raise ConfigError(
            t(
                "{where}: {path} is Kore's own folder, your home folder, or holds one of them; "
                "name the folder of a project",
                where=where,
                path=folder,
            )
        )
    return folder


async def open_channels(
    settings: Settings,
    database: Store,
    stack: AsyncExitStack,
    places: ChatSettingsIndex,
    *,
    menu: tuple[tuple[str, str], ...],
    shows_only: bool = False,
) -> list[Channel]:
    """The channels that the configuration names; only these are imported. `menu` has the chat
    commands, each with what it does, for platforms that list them. With `shows_only` they show
    answers that grow, in a process that sends nothing else."""
    channels: list[Channel] = []
    for plugin, offer in python_channels(settings):
        other = call_offer(plugin, offer, settings.python_plugins[plugin])
        _check_channel(plugin, other)
        channels.append(other)
    if not settings.telegram.enabled:
        return channels
    leave_out_httpx()
    with hidden("cryptography"):
        import telegram as library

        drop_docstrings(library)
        from gateway.channels.telegram.channel import TelegramChannel
    from gateway.channels.rate_limiter import ALL_TRAFFIC, PREVIEWS, RateLimiter
    from gateway.channels.telegram.inbound.poll import OFFSET_LIFE_S
    from gateway.channels.telegram.settings import TelegramSettings

    telegram = settings.telegram
    bots = [(None, telegram.token), *((bot.name, bot.token) for bot in telegram.accounts)]
    secret = telegram.webhook_secret
    proxy = proxy_for(telegram.base_url, os.environ, telegram.proxy)
    ensure_usable(proxy)
    memo = StoreChannelState(database)
    for name, token in bots:
        own = TelegramSettings(
            token=token.get_secret_value(),
            base_url=telegram.base_url,
            proxy=proxy,
            name=name,
            owner=await _owner_of(settings, database),
            reaction=None if telegram.reactions == "off" else telegram.reactions,
            webhook_url=telegram.webhook_url if telegram.mode == "webhook" else None,
            webhook_secret=secret.get_secret_value() if secret else None,
            streaming=telegram.streaming,
            long_answer_messages=telegram.long_answer_messages,
            trace=telegram.trace,
            menu=menu,
        )
        not_before = time.time() - OFFSET_LIFE_S
        cursor = await database.transact(inbox.cursor, "telegram", own.account, not_before)
        rates = PREVIEWS if shows_only else ALL_TRAFFIC
        gate = RateLimiter(telegram.rate_limits, rates=rates)
        channel = TelegramChannel(own, gate=gate, cursor=cursor, places=places, memo=memo)
        stack.push_async_callback(channel.aclose)
        channels.append(channel)
    return channels


def _check_channel(name: str, channel: Channel) -> None:
    """Raises `ConfigError` for what is none, or speaks under another name."""
    methods = ("name", "account", "run", "render", "send")
    if not all(hasattr(channel, one) for one in methods):
        raise ConfigError(
            t(
                "python_plugins: {name!r} offers a {kind}, expected a channel",
                name=name,
                kind=type(channel).__name__,
            )
        )
    if channel.name != name or name in (CONSOLE, API, "telegram"):
        raise ConfigError(
            t("python_plugins: a channel has the name of its plugin, {name!r}", name=name)
        )


async def _owner_of(settings: Settings, database: Store) -> str | None:
    """The owner's id in Telegram, as far as it is known at the start."""
    owner = sole_owner(settings.access.owner, settings.telegram.allow_from)
    if owner is None:
        people = await database.transact(members.members)
        owner = next((one.person.principal for one in people if one.owner), None)
    channel, _, sender = (owner or "").partition(":")
    return sender if channel == "telegram" and sender.isdigit() else None


def allowed_senders(settings: Settings, way: tuple[str, str]) -> tuple[str, ...]:
    """Who may speak on a channel's account."""
    channel, account = way
    if channel != "telegram":
        senders = settings.python_plugins.get(channel, {}).get("allow_from", [])
        return tuple(map(str, senders)) if isinstance(senders, list) else ()
    by_bot = {bot.name: bot.allow_from for bot in settings.telegram.accounts}
    return by_bot.get(account, settings.telegram.allow_from)


def sole_owner(owner: str | None, telegram_allow: Sequence[str]) -> str | None:
    """The configured owner; without one, the only person on the allow-list."""
    if owner is None and len(telegram_allow) == 1 and telegram_allow[0] != "*":
        return f"telegram:{telegram_allow[0]}"
    return owner
