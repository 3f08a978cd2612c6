"""Open the channels of a configuration."""

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t
from agent.proxies.outbound import HttpSessions
from gateway.channels.base import Channel
from gateway.channels.chat_aliases import ChatIdAliases
from gateway.channels.chat_settings import ChatSettings, ChatSettingsIndex
from gateway.channels.rate_limiter import Rates
from gateway.channels.spec import ChannelContext, CommandMenu, RateLimits
from gateway.channels.state import StoreChannelState
from gateway.channels.table import all_specs, owner_of
from gateway.config import Settings
from gateway.config.channel_section import ChannelSection
from gateway.config.real_folder import real_folder
from gateway.runtime.paths import DataDir
from gateway.store.port import Store
from gateway.store.repositories.access import members
from gateway.store.repositories.delivery import chats as stored_moves
from gateway.store.repositories.delivery import inbox


async def places_of(settings: Settings, home: DataDir, database: Store) -> ChatSettingsIndex:
    """Return the settings of individual chats, and the chats whose id has changed.

    Raises `ConfigError`.
    """
    by_channel = {}
    moves = {}
    for spec in all_specs(settings):
        section = spec.section_of(settings)
        by_channel[spec.name] = chat_settings(spec.settings_key, section, settings, home)
        moves[spec.name] = ChatIdAliases(
            await database.transact(stored_moves.load_aliases, spec.name)
        )
    return ChatSettingsIndex(by_channel, moves)


def chat_settings(
    settings_key: str, section: ChannelSection, settings: Settings, home: DataDir
) -> dict[str, ChatSettings]:
    """Return the settings of a channel's chats.

    Raises `ConfigError` for a folder that no chat can use.
    """
    return {
        key: ChatSettings(
            *(chat.persona, chat.model, chat.agent, chat.role, chat.listen),
            None
            if chat.folder is None
            else _chat_folder(f"{settings_key}.chats.{key}.folder", chat.folder, settings, home),
        )
        for key, chat in section.chats.items()
    }


def _chat_folder(where: str, name: str, settings: Settings, home: DataDir) -> Path:
    """Return the real folder.

    Raises `ConfigError` unless it exists and belongs only to a project: everyone who may write in
    the chat may read it, within their role.
    """
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
                "{where}: {path} is Kore's own folder, your home folder, or contains one of them; "
                "name the folder of a project",
                where=where,
                path=folder,
            )
        )
    return folder


async def open_channels(  # noqa: PLR0913 - keyword-only settings of channels
    settings: Settings,
    home: DataDir,
    database: Store,
    stack: AsyncExitStack,
    places: ChatSettingsIndex,
    *,
    menu: CommandMenu,
    shows_only: bool = False,
) -> list[Channel]:
    """Open the enabled channels; only these are imported.

    `menu` lists the chat commands with descriptions, for platforms that display them. With
    `shows_only`, the process only updates previews of answers.
    """
    channels: list[Channel] = []
    http = HttpSessions(os.environ)
    stack.push_async_callback(http.aclose)
    for spec in all_specs(settings):
        section = spec.section_of(settings)
        if not section.enabled:
            continue

        async def load_cursors(
            account: str, not_before: float = 0.0, channel: str = spec.name
        ) -> Mapping[str, str]:
            return await database.transact(inbox.load_cursors, channel, account, not_before)

        context = ChannelContext(
            section=section,
            state=StoreChannelState(database),
            cursors=load_cursors,
            places=places,
            stack=stack,
            http=http,
            own_folder=home.channels / spec.name,
            menu=menu,
            owner=await _owner_id(spec.name, settings, database),
            rates=_rates(spec.rates, shows_only),
        )
        channels += await spec.open(context)
    return channels


def _rates(limits: RateLimits | None, shows_only: bool) -> Rates | None:
    if limits is None:
        return None
    return limits.previews if shows_only else limits.all_traffic


async def _owner_id(channel: str, settings: Settings, database: Store) -> str | None:
    """Return the owner's id in a channel, if it is known at startup."""
    owner = owner_of(settings)
    if owner is None:
        people = await database.transact(members.members)
        owner = next((member.person.principal for member in people if member.owner), None)
    owner_channel, _, sender = (owner or "").partition(":")
    return sender if owner_channel == channel else None
