"""List of installed plugins and their enabled parts, in a single file for a fast start."""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, fields
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from agent.mcp.settings import ArgumentReach
from agent.records import frozen
from gateway.config.atomic_write import file_lock, write_atomic
from gateway.config.foreign.hook_files import hooks_in
from gateway.config.references import read_secrets
from gateway.config.sections import HookSource

log = logging.getLogger(__name__)
FILE = "installed.json"
_SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "cmd", "powershell", "pwsh"}
)


@frozen
class InstalledPlugin:
    """Plugin as approved.

    `folder` is its copy, relative to Kore's `plugins` folder, named by `digest`, a hash of its
    whole content; `source` is its origin, `market` the market that listed it. `skills`, `commands`
    and `agents` are paths in the copy, `servers` MCP servers as in `.mcp.json`, `hooks` as in
    `hooks.json`. `options` are the person's answers, `secret_options` the names of answers in
    secrets.json; `dependencies` are plugins as NAME or NAME@MARKET. `is_pinned`: updates skip it.
    """

    name: str
    version: str
    description: str
    source: Mapping[str, Any]
    digest: str
    folder: str
    market: str = ""
    is_enabled: bool = True
    is_pinned: bool = False
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    servers: Mapping[str, Any] = field(default_factory=dict)
    hooks: Mapping[str, Any] = field(default_factory=dict)
    languages: Mapping[str, Any] = field(default_factory=dict)
    styles: tuple[str, ...] = ()
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    secret_options: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()


class InstalledPlugins:
    """The list in a folder, read from disk at each access."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self) -> dict[str, InstalledPlugin]:
        """Return the plugins by name; an unreadable list counts as empty, and is logged."""
        try:
            return self._read()
        except ConfigError as exc:
            log.warning("%s: no plugin is used", exc)
            return {}

    @contextmanager
    def edited(self) -> Iterator[dict[str, InstalledPlugin]]:
        """Yield the list for changes and save it when the context ends.

        Other writers wait until then. Raises `ConfigError`.
        """
        path = self.folder / FILE
        with file_lock(path):
            plugins = self._read()
            yield plugins
            rows = [asdict(plugins[name]) for name in sorted(plugins)]
            text = json.dumps({"version": 1, "plugins": rows}, indent=1, ensure_ascii=False)
            write_atomic(path, f"{text}\n")

    def _read(self) -> dict[str, InstalledPlugin]:
        path = self.folder / FILE
        try:
            return {
                str(plugin["name"]): _plugin(plugin)
                for plugin in json.loads(path.read_bytes())["plugins"]
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ConfigError(
                t("{path}: cannot be read: {reason}", path=path, reason=exc)
            ) from None

    def enabled(self) -> list[InstalledPlugin]:
        return [plugin for plugin in self.load().values() if plugin.is_enabled]

    def places(self, kind: str) -> list[tuple[str, Path]]:
        """Return the folders of a kind of all enabled plugins, each with its plugin's name.

        Kinds are skills, commands and agents.
        """
        return [
            (plugin.name, self.folder / plugin.folder / place)
            for plugin in self.enabled()
            for place in getattr(plugin, kind)
        ]

    def hooks(self) -> list[HookSource]:
        """Return the hooks of all enabled plugins."""
        sources = []
        for plugin in self.enabled():
            if plugin.hooks:
                origin = t("plugin {name}", name=plugin.name)
                table, _ = hooks_in({"hooks": plugin.hooks}, origin)
                variables = {name[2:-1]: value for name, value in self._roots(plugin).items()}
                # Without secrets, because the variables of a hook become part of its command line.
                variables |= _variables(plugin.options)
                sources.append(HookSource(origin, table, variables, is_own=False))
        return sources

    def hook_folders(self) -> tuple[Path, ...]:
        """Return the copies of enabled plugins that have hooks."""
        return tuple(self.folder / plugin.folder for plugin in self.enabled() if plugin.hooks)

    def _roots(self, plugin: InstalledPlugin) -> Mapping[str, str]:
        """Return the placeholders for a plugin's own folders."""
        return {
            "${CLAUDE_PLUGIN_ROOT}": str(self.folder / plugin.folder),
            "${CLAUDE_PLUGIN_DATA}": str(self.folder / "data" / plugin.name),
        }

    @property
    def secrets_file(self) -> Path:
        return self.folder.parent / "secrets.json"

    def servers(self) -> dict[str, Mapping[str, Any]]:
        """Return the MCP servers of all enabled plugins, as `plugin_PLUGIN_SERVER`.

        Raises `ConfigError`.
        """
        servers: dict[str, Mapping[str, Any]] = {}
        for plugin in self.enabled():
            roots, answers = self._roots(plugin), self._answers(plugin) if plugin.servers else {}
            placeholders = {
                f"${{user_config.{key}}}": _text(value) for key, value in answers.items()
            }
            for name, server in plugin.servers.items():
                # Answers must never become part of shell code.
                values = roots if _is_shell(server) else {**roots, **placeholders}
                definition = _filled(server, values)
                if answers and "command" in server:
                    own = server.get("env")
                    env = (
                        _filled(own, {**roots, **placeholders}) if isinstance(own, Mapping) else {}
                    )
                    definition = {**definition, "env": {**_variables(answers), **env}}
                servers[_server_name(plugin.name, name)] = definition
        return servers

    def language_servers(self) -> dict[str, tuple[Path, Mapping[str, Any]]]:
        """Return the language servers of all enabled plugins, as `plugin_PLUGIN_SERVER`.

        Each has the plugin's copy and its description of the server.
        """
        return {
            _server_name(plugin.name, name): (
                self.folder / plugin.folder,
                _filled(server, self._roots(plugin)),
            )
            for plugin in self.enabled()
            for name, server in plugin.languages.items()
            if isinstance(server, Mapping)
        }

    def reaches(self) -> dict[str, ArgumentReach]:
        """Return the reach of these servers' arguments: the plugin's copy and the person's answers.

        Raises `ConfigError`.
        """
        reaches: dict[str, ArgumentReach] = {}
        for plugin in self.enabled():
            answers = self._answers(plugin).values() if plugin.servers else ()
            data = self.folder / "data" / plugin.name
            places = (
                data,
                *(Path(answer) for answer in map(str, answers) if answer.startswith("/")),
            )
            reach = ArgumentReach(self.folder / plugin.folder, places)
            reaches |= {_server_name(plugin.name, name): reach for name in plugin.servers}
        return reaches

    def _answers(self, plugin: InstalledPlugin) -> Mapping[str, Any]:
        """Return all of the person's answers, including secrets."""
        if not plugin.secret_options:
            return plugin.options
        secrets = read_secrets(self.secrets_file)
        names = {key: secret_name(plugin.name, key) for key in plugin.secret_options}
        secret_answers = {key: secrets[name] for key, name in names.items() if name in secrets}
        return {**plugin.options, **secret_answers}


def _server_name(plugin: str, server: str) -> str:
    """Return a unique name for a plugin's server, because consents and logins depend on it."""
    if "_" not in plugin:
        return f"plugin_{plugin}_{server}"
    digest = sha256(f"{plugin}\0{server}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"plugin-{digest[:8]}_{plugin}_{server}"


def secret_name(plugin: str, key: str) -> str:
    """Return the name of an answer in secrets.json, unique for each plugin and key."""
    return f"PLUGIN_{_word(plugin)}_{_word(key)}"


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}_", text)


def _variables(answers: Mapping[str, Any]) -> dict[str, str]:
    return {f"CLAUDE_PLUGIN_OPTION_{key.upper()}": _text(answer) for key, answer in answers.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_shell(server: Mapping[str, Any]) -> bool:
    name = PurePath(str(server.get("command") or "")).name.lower().removesuffix(".exe")
    return name in _SHELLS


def _plugin(row: Mapping[str, Any]) -> InstalledPlugin:
    names = {attribute.name for attribute in fields(InstalledPlugin)}
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in row.items()
        if key in names
    }
    return InstalledPlugin(**values)


def _filled(value: Any, roots: Mapping[str, str]) -> Any:
    """Return a value with the placeholders for the plugin's folders replaced."""
    if isinstance(value, str):
        for name, folder in roots.items():
            value = value.replace(name, folder)
        return value
    if isinstance(value, Mapping):
        return {key: _filled(entry, roots) for key, entry in value.items()}
    if isinstance(value, Sequence):
        return [_filled(item, roots) for item in value]
    return value
