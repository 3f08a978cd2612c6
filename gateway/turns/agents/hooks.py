"""Hooks of the agent, from the owner, trusted projects, plugins and Python packages."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError
from agent.i18n import t
from gateway.config import Settings
from gateway.config.hook_source import HookSource
from gateway.config.installed_plugins import InstalledPlugins

if TYPE_CHECKING:
    from agent.settings import ToolSettings
    from agent.turn.hooks import Hooks

GROUP = "kore.hooks"


def hook_sources(settings: Settings, plugins: InstalledPlugins) -> list[HookSource]:
    """Return the sources of hooks in the order in which they run."""
    own = [HookSource("config.json", settings.hooks)] if settings.hooks else []
    return [*own, *settings.project_hooks, *plugins.hooks()]


def hooks_of(
    settings: Settings, plugins: InstalledPlugins, tools: "ToolSettings"
) -> "tuple[Hooks[Any], ...]":
    """Return the hooks of the agent. Without any, nothing is imported. Raise `ConfigError`."""
    sources = hook_sources(settings, plugins)
    if not sources and not settings.python_hooks:
        return ()
    from agent.turn.command_hooks import CommandHook, CommandHooks

    commands = [
        CommandHook(
            event,
            hook.command,
            matcher.matcher,
            hook.timeout,
            source.origin,
            is_own=source.is_own,
            variables=source.variables,
        )
        for source in sources
        for event, matchers in source.hooks.items()
        for matcher in matchers
        for hook in matcher.hooks
    ]
    own = python_hooks(settings)
    return (*own, CommandHooks(commands, tools)) if commands else own


def python_hooks(settings: Settings) -> "tuple[Hooks[Any], ...]":
    """Return the hooks that installed packages offer for `python_hooks`. Raise `ConfigError`."""
    return tuple(_offers(settings)) if settings.python_hooks else ()


def _offers(settings: Settings) -> "Iterator[Hooks[Any]]":
    from importlib.metadata import entry_points

    from agent.turn.hooks import Hooks

    for name in settings.python_hooks:
        offers = list(entry_points(group=GROUP, name=name))
        if not offers:
            raise ConfigError(
                t("python_hooks: no installed package offers hooks named {name!r}", name=name),
                hint=t("install the package into Kore's environment, or remove the name"),
            )
        try:
            offer = offers[0].load()
            hooks = offer() if isinstance(offer, type) else offer
        except (ImportError, AttributeError, TypeError, ValueError, RuntimeError, OSError) as exc:
            raise ConfigError(
                t("python_hooks: {name!r} cannot be loaded: {reason}", name=name, reason=exc)
            ) from exc
        if not isinstance(hooks, Hooks):
            raise ConfigError(
                t(
                    "python_hooks: {name!r} is a {kind}, expected a subclass of kore.Hooks",
                    name=name,
                    kind=type(hooks).__name__,
                )
            )
        yield hooks
