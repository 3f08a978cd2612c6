"""Entry points of installed Python packages; only named packages are imported.

Their code runs as a part of Kore, outside of the sandbox.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError
from agent.i18n import t
from gateway.config.channel_section import ChannelSection

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from agent.tools.base import Tool
    from gateway.config.schema import Settings

TOOLS, PROVIDERS, CHANNELS = "kore.tools", "kore.providers", "kore.channels"
STORES = "kore.stores"
# Section of config.json with the packages and their settings.
PACKAGES = "python_plugins"
_GROUPS = (TOOLS, PROVIDERS, CHANNELS, STORES)
_ERRORS = (ImportError, AttributeError, TypeError, ValueError, RuntimeError, OSError)


def python_tools(settings: "Settings") -> "tuple[Tool, ...]":
    """Return the tools of the named packages. Raises `ConfigError`."""
    return tuple(_tools(settings)) if settings.python_plugins else ()


def register_providers(settings: "Settings") -> None:
    """Register the providers of the named packages for `NAME/model`. Raises `ConfigError`."""
    if not settings.python_plugins:
        return
    from agent.providers.registry import register_provider

    for name, factory in _offers(settings, PROVIDERS):
        register_provider(name, factory)


def python_channels(settings: "Settings") -> Iterator[tuple[str, Any]]:
    """Yield the enabled channels of packages by name, each with its package's offer.

    Raises `ConfigError`.
    """
    if settings.python_plugins:
        yield from _offers(settings, CHANNELS)


def package_channels(settings: "Settings") -> dict[str, type[ChannelSection]]:
    """Return the section classes of the enabled channels of packages by name.

    A package that cannot be loaded is absent.
    """
    names = (name for name, options in settings.python_plugins.items() if _is_enabled(options))
    sections = {name: package_section(name) for name in names}
    return {name: section for name, section in sections.items() if section is not None}


def channel_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the values of a package channel's section.

    A package in the settings is enabled by default, any other is not.
    """
    return {"enabled": False} if options is None else {"enabled": True, **options}


def package_sections(settings: "Settings") -> dict[str, ChannelSection]:
    """Return the sections of the enabled channels of packages by name.

    Raises pydantic's `ValidationError` for settings that were not loaded from files.
    """
    return {
        name: section.model_validate(channel_options(settings.python_plugins[name]))
        for name, section in package_channels(settings).items()
    }


def channel_packages() -> "dict[str, EntryPoint]":
    """Return the channels of installed packages by name, without importing any."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=CHANNELS)}


def load_offer(name: str, entry: "EntryPoint") -> Any:
    """Import a package's entry point. Raises `ConfigError`."""
    try:
        return entry.load()
    except _ERRORS as exc:
        raise _not_loaded(name, exc) from exc


def package_section(name: str) -> type[ChannelSection] | None:
    """Import a package and return the section class of its channel.

    Returns None for a package without a channel, and for a package that cannot be loaded, whose use
    is an error.
    """
    try:
        return _import_section(name)
    except (LookupError, ConfigError):
        return None


@cache
def _import_section(name: str) -> type[ChannelSection]:
    """Return the section class of a package's channel.

    Raises `LookupError` for a package without a channel, and `ConfigError`. Errors are not cached,
    because the package may be installed later.
    """
    section = getattr(load_offer(name, channel_packages()[name]), "section", None)
    if not isinstance(section, type) or not issubclass(section, ChannelSection):
        raise LookupError(name)
    return section


def _is_enabled(options: Mapping[str, Any]) -> bool:
    return options.get("enabled") is not False


def python_store(settings: "Settings") -> Any:
    """Return the store of a named package, which replaces the database in a file.

    Its type is `gateway.store.port.Store`. Returns None if no package is named. Raises
    `ConfigError`.
    """
    offers = list(_offers(settings, STORES)) if settings.python_plugins else []
    if not offers:
        return None
    if len(offers) > 1:
        names = ", ".join(name for name, _ in offers)
        raise ConfigError(t("python_plugins: {names} each offer a store; name one", names=names))
    name, offer = offers[0]
    store = call_offer(name, offer, settings.python_plugins[name])
    if not all(hasattr(store, literal) for literal in ("folder", "transact", "backup", "close")):
        raise ConfigError(
            t(
                "python_plugins: {name!r} offers a {kind}, expected a store",
                name=name,
                kind=type(store).__name__,
            )
        )
    return store


def call_offer(name: str, offer: Any, *values: Any) -> Any:
    """Call a package's offer and return the result. Raises `ConfigError`."""
    try:
        return offer(*values)
    except _ERRORS as exc:
        raise _not_loaded(name, exc) from exc


def _tools(settings: "Settings") -> "Iterator[Tool]":
    for name, offer in _offers(settings, TOOLS):
        is_tool = hasattr(offer, "run") and not isinstance(offer, type)
        options = settings.python_plugins[name]
        tools = offer if is_tool else call_offer(name, offer, options)
        for tool in tools if isinstance(tools, list | tuple) else (tools,):
            attributes = ("name", "description", "parameters", "effect", "run")
            if not all(hasattr(tool, attribute) for attribute in attributes):
                raise ConfigError(
                    t(
                        "python_plugins: {name!r} offers a {kind}, expected a tool",
                        name=name,
                        kind=type(tool).__name__,
                    )
                )
            yield tool


def _offers(settings: "Settings", group: str) -> Iterator[tuple[str, Any]]:
    """Yield the offers for the names in a group; a name may occur in several."""
    from importlib.metadata import entry_points

    every = [entry_point for group in _GROUPS for entry_point in entry_points(group=group)]
    for name, options in settings.python_plugins.items():
        if group == CHANNELS and not _is_enabled(options):
            continue
        mine = [point for point in every if point.name == name]
        if not mine:
            raise ConfigError(
                t("python_plugins: no installed package offers {name!r}", name=name),
                hint=t("install the package into Kore's environment, or remove the name"),
            )
        for point in mine:
            if point.group == group:
                yield name, load_offer(name, point)


def _not_loaded(name: str, exc: Exception) -> ConfigError:
    return ConfigError(
        t("python_plugins: {name!r} cannot be loaded: {reason}", name=name, reason=exc)
    )
