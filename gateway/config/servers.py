"""MCP servers and language servers in the settings and in plugins."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agent.approvals import FolderAccess
from agent.code.lsp.known_servers import KNOWN_SERVERS
from agent.errors import ConfigError
from agent.i18n import t
from agent.mcp.settings import ArgumentReach, McpServerSettings, McpSettings
from agent.settings import LspServerSettings, LspSettings
from agent.tools.elicitation import decline
from gateway.config.real_folder import real_folder
from gateway.config.sections import LspServer, McpServer

if TYPE_CHECKING:
    from agent.mcp.login_file import Sealer
    from gateway.config.installed_plugins import InstalledPlugins
    from gateway.config.schema import Settings


log = logging.getLogger(__name__)
# Keys that a plugin may set for its server; the owner decides on permissions.
_PLUGIN_KEYS = frozenset({"command", "args", "env", "url", "headers", "type"})


def mcp_settings(
    settings: "Settings",
    folder: Path,
    sealer: "Sealer | None" = None,
    plugins: "InstalledPlugins | None" = None,
) -> McpSettings:
    """Return the enabled servers of the settings and of plugins.

    `folder` contains their state, `sealer` seals the logins there.
    """
    # A plugin's server never replaces the person's.
    servers = {**plugin_servers(plugins), **settings.mcp_servers}
    reaches = plugins.reaches() if plugins is not None else {}
    enabled = (
        replace(
            server_of(
                name,
                each,
                None if name in settings.mcp_servers else reaches.get(name),
                settings.project_of_server(name),
            ),
            is_own=name in settings.mcp_servers,
        )
        for name, each in servers.items()
        if each.enabled
    )
    # Each call has its own way to ask a person.
    return McpSettings(tuple(enabled), folder, sealer, decline)


def login_key_variable(settings: "Settings", plugins: "InstalledPlugins") -> str | None:
    """Return the variable with the key for sealing logins, which also seals the store's texts.

    Returns None without a key, or without a server to log in to.
    """
    servers = [*settings.mcp_servers.values(), *plugin_servers(plugins).values()]
    if not any(server.url and server.enabled for server in servers):
        return None
    return settings.store.encryption_key_env


def plugin_servers(plugins: "InstalledPlugins | None") -> dict[str, McpServer]:
    """Return the servers of plugins; an invalid one is skipped and logged."""
    servers = {}
    reaches = plugins.reaches() if plugins is not None else {}
    for name, described in (plugins.servers() if plugins is not None else {}).items():
        values = {key: value for key, value in described.items() if key in _PLUGIN_KEYS}
        if values.get("type") in ("streamable-http", "streamableHttp"):
            values["type"] = "http"
        try:
            server = McpServer.model_validate(values)
            server_of(name, server, reaches.get(name))
            servers[name] = server
        except (ConfigError, ValidationError) as exc:
            log.warning("the MCP server %s cannot be used: %s", name, exc)
    return servers


def server_of(
    name: str,
    server: McpServer,
    reach: ArgumentReach | None = None,
    project: Path | None = None,
) -> McpServerSettings:
    """Return a server's settings; `project` is the folder of the project that configures it.

    Raises `ConfigError` for a server without command and URL, or whose folder leads through a link.
    """
    if (server.command is None) == (server.url is None):
        raise ConfigError(
            t("mcp_servers.{name}: expected either `command` or `url`", name=name),
            hint=t('such as "command": "npx", or "url": "https://example.org/mcp"'),
        )
    folder = None
    if server.folder is not None:
        folder = real_folder(f"mcp_servers.{name}.folder", server.folder)
    added_folders = (
        FolderAccess(real_folder(f"mcp_servers.{name}.folders", path), access == "write")
        for path, access in server.folders.items()
    )
    settings = McpServerSettings(
        name,
        server.command,
        server.args,
        {key: value.get_secret_value() for key, value in server.env.items()},
        server.url,
        {key: value.get_secret_value() for key, value in server.headers.items()},
        is_sse=server.type == "sse",
        folder=folder,
        added_folders=tuple(added_folders),
        project=None if server.command is None else project,
        reach=reach,
        read_only=server.read_only,
        network=server.network,
        tools=server.tools,
        without_tools=server.without_tools,
        allow=server.allow,
        is_private=server.private,
        is_trusted_with_private_data=server.trusted_with_private_data,
        timeout_s=server.timeout_s,
        start_timeout_s=server.start_timeout_s,
        protocol=server.protocol,
    )
    if folder is None and (path := settings.argument_folder) is not None:
        real_folder(f"mcp_servers.{name}.args", str(path))
    return settings


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
