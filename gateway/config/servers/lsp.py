"""Language servers in the settings and in plugins."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.code.lsp.known_servers import KNOWN_SERVERS
from agent.errors import ConfigError
from agent.i18n import t
from agent.settings import LspServerSettings, LspSettings
from gateway.config.sections import LspServer

if TYPE_CHECKING:
    from gateway.config.installed_plugins import InstalledPlugins
    from gateway.config.schema import Settings

log = logging.getLogger(__name__)


def lsp_settings(
    settings: "Settings", folder: Path, plugins: "InstalledPlugins | None" = None
) -> LspSettings:
    """Return the enabled servers; `folder` contains their homes and logs. Raises `ConfigError`."""
    configured = settings.lsp_servers
    servers = [_server_of(name, each) for name, each in configured.items() if each.enabled]
    if plugins is not None and settings.lsp.enabled:
        servers += _plugin_servers(plugins)
    return LspSettings(
        enabled=settings.lsp.enabled,
        before_write=settings.lsp.before_write,
        servers=tuple(servers),
        without=frozenset(name for name, each in configured.items() if not each.enabled),
        folder=folder,
        idle_s=settings.lsp.idle_s,
        wait_s=settings.lsp.wait_s,
        timeout_s=settings.lsp.timeout_s,
        watch=settings.context.watch,
    )


def _server_of(name: str, server: LspServer) -> LspServerSettings:
    """Return a server's settings; a known server has defaults. Raises `ConfigError`."""
    usual = next((candidate for candidate in KNOWN_SERVERS if candidate.name == name), None)
    if usual is None and (server.command is None or not server.extensions):
        raise ConfigError(
            t("lsp_servers.{name}: expected `command` and `extensions`", name=name),
            hint=t('such as "command": "zls", "extensions": [".zig"]'),
        )
    program = server.command or (usual.command[0] if usual is not None else "")
    args = server.args if server.args or usual is None else usual.command[1:]
    return LspServerSettings(
        name,
        (program, *args),
        server.extensions or (usual.extensions if usual is not None else ()),
        {ending.lower(): language for ending, language in server.languages.items()},
        server.options,
        server.settings,
        {key: value.get_secret_value() for key, value in server.env.items()},
        server.root_files or (usual.root_files if usual is not None else ()),
    )


def _plugin_servers(plugins: "InstalledPlugins") -> Iterator[LspServerSettings]:
    """Yield the servers in `.lsp.json` of plugins; an invalid one is skipped and logged."""
    for name, (folder, described) in plugins.language_servers().items():
        try:
            yield _plugin_server(name, folder, described)
        except (TypeError, ValueError, AttributeError) as exc:
            log.warning("the language server %s cannot be used: %s", name, exc)


def _plugin_server(name: str, folder: Path, described: Mapping[str, Any]) -> LspServerSettings:
    command, args = described.get("command"), described.get("args") or []
    languages = described.get("extensionToLanguage")
    if not isinstance(command, str) or not command or not isinstance(languages, dict):
        raise ValueError("it needs command and extensionToLanguage")
    if described.get("transport", "stdio") != "stdio":
        raise ValueError("only stdio is spoken")
    variables = described.get("env") or {}
    return LspServerSettings(
        name,
        (command, *map(str, args)),
        tuple(str(ending).lower() for ending in languages),
        {str(ending).lower(): str(language) for ending, language in languages.items()},
        dict(described.get("initializationOptions") or {}),
        dict(described.get("settings") or {}),
        {str(key): str(value) for key, value in variables.items()},
        configured=False,
        plugin_folder=folder,
    )
