"""Which plugins are installed, and what of each is used: read at every start, so it is one file."""

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
from gateway.config.hook_source import HookSource
from gateway.config.references import read_secrets

log = logging.getLogger(__name__)
FILE = "installed.json"
_SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "cmd", "powershell", "pwsh"}
)


@frozen
class InstalledPlugin:
    """A plugin as it was approved. `folder` is its copy, from Kore's `plugins` folder on, named by
    `digest`, a hash of all that it holds; `source` is where it came from, `market` by which market.
    `skills`, `commands` and `agents` are paths in the copy, `servers` MCP servers as `.mcp.json`
    has them, `hooks` as `hooks.json` does. `options` are what the person answered, `secret_options`
    the names of answers in secrets.json; `dependencies` are plugins as NAME or NAME@MARKET.
    `is_pinned`: updates leave it as it is."""

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
    """The list in a folder; nothing is kept in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self) -> dict[str, InstalledPlugin]:
        """By name; a list that cannot be read counts as empty, and is told in the log."""
        try:
            return self._read()
        except ConfigError as exc:
            log.warning("%s: no plugin is used", exc)
            return {}

    @contextmanager
    def edited(self) -> Iterator[dict[str, InstalledPlugin]]:
        """The list, saved when the block ends; others wait until then. Raises `ConfigError`."""
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
                str(one["name"]): _plugin(one) for one in json.loads(path.read_bytes())["plugins"]
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ConfigError(
                t("{path}: cannot be read: {reason}", path=path, reason=exc)
            ) from None

    def enabled(self) -> list[InstalledPlugin]:
        return [one for one in self.load().values() if one.is_enabled]

    def places(self, kind: str) -> list[tuple[str, Path]]:
        """The folders of a kind (skills, commands, agents) of all enabled plugins, each with its
        plugin's name."""
        return [
            (one.name, self.folder / one.folder / place)
            for one in self.enabled()
            for place in getattr(one, kind)
        ]

    def hooks(self) -> list[HookSource]:
        """The hooks of all enabled plugins."""
        sources = []
        for one in self.enabled():
            if one.hooks:
                origin = t("plugin {name}", name=one.name)
                table, _ = hooks_in({"hooks": one.hooks}, origin)
                variables = {name[2:-1]: value for name, value in self._roots(one).items()}
                # No secrets: what a hook is given stands on its command line.
                variables |= _variables(one.options)
                sources.append(HookSource(origin, table, variables, is_own=False))
        return sources

    def hook_folders(self) -> tuple[Path, ...]:
        """The copies of enabled plugins that have hooks."""
        return tuple(self.folder / one.folder for one in self.enabled() if one.hooks)

    def _roots(self, plugin: InstalledPlugin) -> Mapping[str, str]:
        """How a plugin names its own folders."""
        return {
            "${CLAUDE_PLUGIN_ROOT}": str(self.folder / plugin.folder),
            "${CLAUDE_PLUGIN_DATA}": str(self.folder / "data" / plugin.name),
        }

    @property
    def secrets_file(self) -> Path:
        return self.folder.parent / "secrets.json"

    def servers(self) -> dict[str, Mapping[str, Any]]:
        """The MCP servers of all enabled plugins, as `plugin_PLUGIN_SERVER`. Raises
        `ConfigError`."""
        servers: dict[str, Mapping[str, Any]] = {}
        for one in self.enabled():
            roots, answers = self._roots(one), self._answers(one) if one.servers else {}
            placeholders = {
                f"${{user_config.{key}}}": _text(value) for key, value in answers.items()
            }
            for name, server in one.servers.items():
                # Answers never become a part of what a shell reads.
                values = roots if _is_shell(server) else {**roots, **placeholders}
                definition = _filled(server, values)
                if answers and "command" in server:
                    own = server.get("env")
                    env = (
                        _filled(own, {**roots, **placeholders}) if isinstance(own, Mapping) else {}
                    )
                    definition = {**definition, "env": {**_variables(answers), **env}}
                servers[_server_name(one.name, name)] = definition
        return servers

    def language_servers(self) -> dict[str, tuple[Path, Mapping[str, Any]]]:
        """The language servers of all enabled plugins, as `plugin_PLUGIN_SERVER`: the plugin's copy
        and what it says of the server."""
        return {
            _server_name(one.name, name): (
                self.folder / one.folder,
                _filled(server, self._roots(one)),
            )
            for one in self.enabled()
            for name, server in one.languages.items()
            if isinstance(server, Mapping)
        }

    def reaches(self) -> dict[str, ArgumentReach]:
        """What the arguments of these servers can open: the plugin's copy, and what the person
        answered. Raises `ConfigError`."""
        reaches: dict[str, ArgumentReach] = {}
        for one in self.enabled():
            answers = self._answers(one).values() if one.servers else ()
            data = self.folder / "data" / one.name
            places = (data, *(Path(each) for each in map(str, answers) if each.startswith("/")))
            reach = ArgumentReach(self.folder / one.folder, places)
            reaches |= {_server_name(one.name, name): reach for name in one.servers}
        return reaches

    def _answers(self, plugin: InstalledPlugin) -> Mapping[str, Any]:
        """All that the person answered, secrets too."""
        if not plugin.secret_options:
            return plugin.options
        secrets = read_secrets(self.secrets_file)
        names = {key: secret_name(plugin.name, key) for key in plugin.secret_options}
        secret_answers = {key: secrets[name] for key, name in names.items() if name in secrets}
        return {**plugin.options, **secret_answers}


def _server_name(plugin: str, server: str) -> str:
    """Never that of another plugin's server: consents and logins go by it."""
    if "_" not in plugin:
        return f"plugin_{plugin}_{server}"
    digest = sha256(f"{plugin}\0{server}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"plugin-{digest[:8]}_{plugin}_{server}"


def secret_name(plugin: str, key: str) -> str:
    """What an answer is called in secrets.json: each plugin and key has a name of its own."""
    return f"PLUGIN_{_word(plugin)}_{_word(key)}"


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}_", text)


def _variables(answers: Mapping[str, Any]) -> dict[str, str]:
    return {f"CLAUDE_PLUGIN_OPTION_{key.upper()}": _text(one) for key, one in answers.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_shell(server: Mapping[str, Any]) -> bool:
    name = PurePath(str(server.get("command") or "")).name.lower().removesuffix(".exe")
    return name in _SHELLS


def _plugin(row: Mapping[str, Any]) -> InstalledPlugin:
    names = {one.name for one in fields(InstalledPlugin)}
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in row.items()
        if key in names
    }
    return InstalledPlugin(**values)


def _filled(value: Any, roots: Mapping[str, str]) -> Any:
    """A value in which the plugin's own folders stand where it names them."""
    if isinstance(value, str):
        for name, folder in roots.items():
            value = value.replace(name, folder)
        return value
    if isinstance(value, Mapping):
        return {key: _filled(one, roots) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [_filled(one, roots) for one in value]
    return value
