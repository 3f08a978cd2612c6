"""Specs of built-in channels and of installed packages."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from gateway.channels.spec import ChannelSpec
from gateway.config import Settings
from gateway.config.channel_section import ChannelSection
from gateway.config.python_plugins import channel_packages, load_offer, python_channels
from gateway.core.channel_table import CHANNELS
from gateway.core.messages import CONSOLE
from gateway.core.token_routes import API


@cache
def built_in_specs() -> Mapping[str, ChannelSpec[Any]]:
    """Return the specs of the built-in channels by name."""
    return {name: resolve_name(path) for name, path in CHANNELS.items()}


def all_specs(settings: Settings) -> Iterator[ChannelSpec[Any]]:
    """Yield the specs of built-in channels and of the packages in the settings.

    Raises `ConfigError` for a package that offers anything else.
    """
    yield from built_in_specs().values()
    for plugin, offer in python_channels(settings):
        yield check_offer(plugin, offer)


def find_spec(name: str) -> ChannelSpec[Any]:
    """Return the spec of a built-in channel or an installed package.

    The package need not be in the settings. Raises `ConfigError` for any other name.
    """
    if spec := built_in_specs().get(name):
        return spec
    offered = channel_packages()
    if name not in offered:
        raise ConfigError(
            t('unknown channel "{name}"', name=name),
            hint=t("expected one of {known}", known=", ".join([*CHANNELS, *offered])),
        )
    return check_offer(name, load_offer(name, offered[name]))


def check_offer(plugin: str, offer: object) -> ChannelSpec[Any]:
    """Return the channel spec that a package offers.

    Raises `ConfigError` unless it is the spec of a channel with the name of its entry point.
    """
    if not isinstance(offer, ChannelSpec):
        raise ConfigError(
            t(
                "python_plugins: {name!r} offers a {kind}, expected a channel",
                name=plugin,
                kind=type(offer).__name__,
            )
        )
    if offer.name != plugin or plugin in (CONSOLE, API, *CHANNELS):
        raise ConfigError(
            t("python_plugins: a channel has the name of its plugin, {name!r}", name=plugin)
        )
    return offer


def channel_sections(settings: Settings) -> dict[str, ChannelSection]:
    """Return the settings of all channels by name. Raises `ConfigError`."""
    return {spec.name: spec.section_of(settings) for spec in all_specs(settings)}


def check_channels(settings: Settings) -> None:
    """Raise `ConfigError` for the first enabled channel with unusable settings."""
    for spec in all_specs(settings):
        section = spec.section_of(settings)
        if section.enabled:
            require_usable(spec, section, settings)


def require_usable(spec: ChannelSpec[Any], section: ChannelSection, settings: Settings) -> None:
    """Raise `ConfigError` if the settings of an enabled channel are unusable."""
    for missing in settings.missing:
        if missing.loc[0] == spec.name:
            raise ConfigError(str(missing))
    spec.check(section)


def allowed_senders(
    settings: Settings, accounts: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the ids of people who may write to each account of a channel; "*" is everyone."""
    sections = channel_sections(settings)
    return {
        (name, account): sections[name].allowed_senders(account) if name in sections else ()
        for name, account in accounts
    }


def folders_of_chats(settings: Settings) -> list[str]:
    """Return the project folders of chats."""
    sections = channel_sections(settings).values()
    chats = [chat for section in sections for chat in section.chats.values()]
    return [chat.folder for chat in chats if chat.folder]


def owner_of(settings: Settings) -> str | None:
    """Return the configured owner, or else the only person on the allow-lists.

    Only channels whose platform authenticates the sender count.
    """
    if settings.access.owner is not None:
        return settings.access.owner
    people = [
        f"{name}:{sender}"
        for name, section in channel_sections(settings).items()
        if section.proves_identity
        for sender in section.allow_from
    ]
    is_single = len(people) == 1 and not people[0].endswith(":*")
    return people[0] if is_single else None
