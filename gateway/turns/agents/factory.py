"""Factory for the agent that the settings describe."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.agent import Agent
from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.pool import ModelPool
from agent.providers.registry import OFFLINE
from agent.security.sandbox.base import Sandbox, ShowsFolders
from agent.security.taint.worktree_record import WorktreeRecord
from agent.settings import AgentSettings, ToolSettings
from agent.tools.runner import Permissions
from agent.turn.hook_events import DEFINITIONS, HookEventName
from agent.turn.hooks import Hooks
from gateway.config import Settings
from gateway.config.installed_plugins import InstalledPlugins
from gateway.config.model_entries import (
    chosen_model,
    fallbacks,
    local_models,
    model_list,
    profile_models,
)
from gateway.config.python_plugins import python_tools
from gateway.config.sections import HookCommand, HookPrompt, HookSource
from gateway.runtime.paths import DataDir
from gateway.runtime.sandbox import command_limits, fixed_files, off_limits, own_services
from gateway.runtime.secrets import secret_values
from gateway.store.cipher import cipher_of
from gateway.turns.agents.profiles import (
    catalogue_of,
    limits_of,
    own_skill_folders,
    skill_catalog,
    trusted_folders,
)

if TYPE_CHECKING:
    from agent.settings import ToolSettings
    from agent.tools.base import Tool
    from agent.turn.command_hooks import ConfiguredHook


GROUP = "kore.hooks"


async def build_agent(
    settings: Settings,
    home: DataDir,
    sandbox: Sandbox,
    approve: Permissions | None = None,
    *,
    full_access: bool = False,
) -> Agent:
    """Return the agent that the settings describe, without connections. Raise `ConfigError`.

    With `full_access`, its tools are unrestricted; the permissions decide who may use them.
    """
    models = ModelPool(
        default=await _default_model(settings),
        known=model_list(settings),
        fallbacks=fallbacks(settings),
        environ=os.environ,
        window=settings.context.max_tokens,
        profiles=profile_models(settings),
    )
    from gateway.config.servers import login_key_variable, lsp_settings, mcp_settings

    plugins = InstalledPlugins(home.plugins)
    if isinstance(sandbox, ShowsFolders):
        # Scripts of skills and hooks run in the sandbox, too.
        sandbox = sandbox.showing((*own_skill_folders(home), *plugins.hook_folders()))
    tools = ToolSettings(
        exec_timeout_s=settings.tools.exec_timeout_s,
        output_limit_bytes=settings.tools.output_limit_bytes,
        read_limit_bytes=settings.tools.read_limit_bytes,
        web_search_results=settings.tools.web_search_results,
        restrict_to_workspace=settings.security.restrict_to_workspace,
        blocked_paths=settings.security.blocked_paths,
        off_limits=off_limits(settings, home),
        fixed_files=fixed_files(settings),
        sandbox=sandbox,
        exec_hosts=settings.security.exec_hosts,
        exec_local=settings.security.exec_local,
        exec_disposable=settings.security.exec_disposable,
        own_services=own_services(settings, home),
        exec_env=settings.security.exec_env,
        limits=command_limits(settings),
        temporary_folder=home.temporary,
    )
    sealer = cipher_of(login_key_variable(settings, plugins), os.environ)
    return Agent(
        models,
        subagents=catalogue_of(home, settings),
        approve=approve,
        mcp_servers=mcp_settings(settings, home.mcp, sealer, plugins),
        skills=skill_catalog(home, settings),
        tools=(*creative_tools(settings, tools), *python_tools(settings)),
        hooks=hooks_of(settings, plugins, tools.with_full_access() if full_access else tools),
        workspace=settings.agent.workspace,
        settings=AgentSettings(
            max_iterations=settings.agent.max_iterations,
            temperature=settings.agent.temperature,
            max_tokens=settings.agent.max_tokens,
            effort=settings.agent.effort,
            tools=tools.with_full_access() if full_access else tools,
            subagents=limits_of(settings),
            secrets=secret_values(settings, os.environ),
            trusted_folders=trusted_folders(settings),
            worktrees=WorktreeRecord(home.root),
            worktrees_parent=settings.agent.worktrees,
            lsp=lsp_settings(settings, home.lsp, plugins),
            watch=settings.context.watch,
        ),
    )


def creative_tools(settings: Settings, tools: ToolSettings) -> "list[Tool]":
    """Return the configured creative tools. Without any, nothing is imported."""
    own: list[Tool] = []
    if settings.images.api_base is not None:
        from agent.tools.creative.image_generate import ImageGenerate, ImageSettings

        images = settings.images
        key = images.api_key.get_secret_value() if images.api_key else ""
        address = str(images.api_base)
        service = ImageSettings(
            address, images.model, key, images.size, images.ask, images.price_usd
        )
        own.append(ImageGenerate(tools, service))
    if settings.tools.asset_export:
        from agent.tools.creative.asset_export import AssetExport

        own.append(AssetExport(tools))
    if settings.tools.summarize:
        from agent.tools.creative.summarize import Summarize

        own.append(Summarize(tools, "quick" if settings.profiles.quick != "default" else None))
    return own


async def _default_model(settings: Settings) -> str:
    """Return the configured model, a vendor with a key, a local model or `OFFLINE`."""
    model = chosen_model(settings, os.environ)
    if model != OFFLINE:
        return model
    return chosen_model(settings, os.environ, await local_models(settings))


def hook_sources(settings: Settings, plugins: InstalledPlugins) -> list[HookSource]:
    """Return the sources of hooks in the order in which they run."""
    own = [HookSource("config.json", settings.hooks)] if settings.hooks else []
    return [*own, *settings.project_hooks, *plugins.hooks()]


def hooks_of(
    settings: Settings, plugins: InstalledPlugins, tools: "ToolSettings"
) -> tuple[Hooks[Any], ...]:
    """Return the hooks of the agent. Without any, nothing is imported. Raise `ConfigError`."""
    sources = hook_sources(settings, plugins)
    if not sources and not settings.python_hooks:
        return ()
    from agent.turn.command_hooks import CommandHooks

    configured = [
        _configured(source, event, matcher.matcher, hook)
        for source in sources
        for event, matchers in source.hooks.items()
        for matcher in matchers
        for hook in matcher.hooks
    ]
    own = python_hooks(settings)
    return (*own, CommandHooks(configured, tools)) if configured else own


def _configured(
    source: HookSource, event: HookEventName, matcher: str, hook: HookCommand | HookPrompt
) -> "ConfiguredHook":
    from agent.turn.command_hooks import CommandHook, PromptHook

    if isinstance(hook, HookPrompt):
        return PromptHook(
            event,
            hook.prompt,
            matcher,
            hook.timeout,
            source.origin,
            is_own=source.is_own,
            model=hook.model,
            continues_on_block=hook.continues_on_block,
        )
    return CommandHook(
        event,
        hook.command,
        matcher,
        DEFINITIONS[event].timeout_s if hook.timeout is None else hook.timeout,
        source.origin,
        is_own=source.is_own,
        variables=source.variables,
        is_async=hook.is_async,
    )


def python_hooks(settings: Settings) -> tuple[Hooks[Any], ...]:
    """Return the hooks that installed packages offer for `python_hooks`. Raise `ConfigError`."""
    return tuple(_offered_hooks(settings)) if settings.python_hooks else ()


def _offered_hooks(settings: Settings) -> Iterator[Hooks[Any]]:
    from importlib.metadata import entry_points

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
