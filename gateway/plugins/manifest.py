"""Manifest of a plugin: `.claude-plugin/plugin.json` and the places of its parts."""

import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from agent.i18n import t
from agent.records import frozen
from agent.security.files.safe_open import open_regular
from agent.text.visible import escape_line
from gateway.config.foreign.hook_files import hooks_in
from gateway.plugins.errors import PluginError
from gateway.plugins.options import PluginOption, read_options

MANIFEST = Path(".claude-plugin", "plugin.json")
_LIMIT_BYTES = 1_000_000
_MAX_NAME_BYTES = 120


@frozen
class PluginManifest:
    """Contents of a plugin.

    `skills`, `commands` and `agents` are folders or files relative to the plugin's folder;
    `servers` are MCP servers as in `.mcp.json`, `hooks` commands at events as in `hooks.json`,
    `languages` language servers, `styles` folders of output styles. `options` are its questions,
    `dependencies` plugins as NAME or NAME@MARKET. `not_used` names parts that Kore ignores.
    """

    name: str
    version: str = ""
    description: str = ""
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    servers: Mapping[str, Any] = field(default_factory=dict)
    hooks: Mapping[str, Any] = field(default_factory=dict)
    languages: Mapping[str, Any] = field(default_factory=dict)
    styles: tuple[str, ...] = ()
    options: tuple[PluginOption, ...] = ()
    dependencies: tuple[str, ...] = ()
    not_used: tuple[str, ...] = ()


def read_manifest(
    folder: Path, entry: Mapping[str, Any] | None = None, usual_name: str = ""
) -> PluginManifest:
    """Read the manifest of a folder. Raises `PluginError`.

    `entry` comes from its market and is the whole manifest unless it is `strict`. A plugin without
    a name gets `usual_name`, or the name of its folder.
    """
    entry = entry or {}
    own = read_object(folder / MANIFEST) if (folder / MANIFEST).is_file() else {}
    data = {**own, **entry} if entry.get("strict") is False else {**entry, **own}
    name = _text(data, "name") or usual_name or folder.name
    if not is_name(name):
        raise PluginError(
            t("found the plugin name {name!r}, expected a plain word", name=name[:80])
        )
    hooks = _hooks(folder, data.get("hooks"))
    not_used = hooks_in({"hooks": hooks}, "hooks.json")[1]
    languages = _servers(folder, "lspServers", data.get("lspServers"), ".lsp.json")
    commands = data.get("commands")
    if isinstance(commands, dict):
        commands, without = _named_commands(commands)
        not_used += [t("commands without a file")] if without else []
    # An entry that is the whole manifest may select some of the skills in a shared folder.
    adds = entry.get("strict") is not False or "skills" not in entry
    skills = _places(folder, "skills", data.get("skills"), adds=adds)
    if not skills and (folder / "SKILL.md").is_file():
        skills = (".",)
    return PluginManifest(
        name=escape_line(name),
        version=escape_line(_text(data, "version")),
        description=escape_line(" ".join(_text(data, "description").split())),
        skills=skills,
        commands=_places(folder, "commands", commands),
        agents=_places(folder, "agents", data.get("agents")),
        servers=_servers(folder, "mcpServers", data.get("mcpServers"), ".mcp.json"),
        hooks=hooks,
        languages=languages,
        styles=_places(folder, "output-styles", data.get("outputStyles")),
        options=read_options(data.get("userConfig")),
        dependencies=_dependencies(data.get("dependencies")),
        not_used=tuple(not_used),
    )


def is_name(name: str) -> bool:
    """Return whether a plugin or a market may have this name, which names a folder, too.

    A colon would make PLUGIN:NAME ambiguous.
    """
    is_plain = name.isprintable() and not set(name) & set("/\\:") and name not in ("", ".", "..")
    return is_plain and len(name.encode("utf-8", "surrogatepass")) <= _MAX_NAME_BYTES


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises `PluginError`."""
    try:
        with open_regular(path) as file:
            raw = file.read(_LIMIT_BYTES + 1)
        if len(raw) > _LIMIT_BYTES:
            raise PluginError(t("{path} is too large", path=path))
        data = json.loads(raw)
    except OSError as exc:
        raise PluginError(f"{path}: {exc.strerror}") from None
    except (ValueError, RecursionError) as exc:
        raise PluginError(t("{path}: not valid JSON: {reason}", path=path, reason=exc)) from None
    if not isinstance(data, dict):
        raise PluginError(t("{path}: expected an object", path=path))
    return data


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise PluginError(t("{key}: expected a text", key=key))
    return value


def _places(folder: Path, kind: str, value: Any, *, adds: bool = False) -> tuple[str, ...]:
    """Return the folders and files of a kind.

    Named places replace the usual folder or are added to it. Raises `PluginError` for a path that
    leaves the plugin.
    """
    usual = [kind] if (folder / kind).is_dir() else []
    if value is None:
        return tuple(usual)
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise PluginError(t("{key}: expected a path or a list of paths", key=kind))
    places = [_inside(folder, name, kind) for name in names]
    return tuple(dict.fromkeys([*(usual if adds else ()), *filter(None, places)]))


def _inside(folder: Path, name: str, kind: str) -> str:
    """Return a path relative to the folder, or '' if nothing is there."""
    root = folder.resolve()
    path = (root / name).resolve()
    if name.startswith("/") or not path.is_relative_to(root):
        raise PluginError(t("{key}: {name} leaves the plugin's folder", key=kind, name=name[:200]))
    return str(path.relative_to(root)) if path.exists() else ""


def _named_commands(commands: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Return the files of named commands, and whether any command has no file."""
    sources = [
        command.get("source") if isinstance(command, dict) else command
        for command in commands.values()
    ]
    files = [source for source in sources if isinstance(source, str)]
    return files, len(files) < len(sources)


def _dependencies(value: Any) -> tuple[str, ...]:
    """Return dependencies as NAME or NAME@MARKET."""
    names = []
    for item in value if isinstance(value, list) else [] if value is None else [value]:
        name, market = (
            (item.get("name"), item.get("marketplace")) if isinstance(item, dict) else (item, "")
        )
        if not isinstance(name, str) or not name:
            raise PluginError(t("dependencies: expected a list of names"))
        names.append(escape_line(f"{name}@{market}" if market else name))
    return tuple(dict.fromkeys(names))


def _servers(folder: Path, key: str, value: Any, usual: str) -> dict[str, Any]:
    """Return servers by name; a plugin gives a file, several files, or the servers themselves."""
    if value is None:
        value = usual if (folder / usual).is_file() else {}
    table: dict[str, Any] = {}
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            item = read_object(folder / (_inside(folder, item, key) or item))
        item = item.get(key, item) if isinstance(item, dict) else None
        if not isinstance(item, dict):
            raise PluginError(t("{key}: expected an object", key=key))
        table |= {str(name): server for name, server in item.items() if isinstance(server, dict)}
    return table


def _hooks(folder: Path, value: Any) -> dict[str, Any]:
    """Return hooks by event; a plugin gives a file, several files, or the hooks themselves."""
    if value is None:
        usual = "hooks/hooks.json"
        value = usual if (folder / usual).is_file() else {}
    table: dict[str, Any] = {}
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            item = read_object(folder / (_inside(folder, item, "hooks") or item))
        item = item.get("hooks", item) if isinstance(item, dict) else None
        if not isinstance(item, dict):
            raise PluginError(t("{key}: expected an object", key="hooks"))
        for event, matchers in item.items():
            if not isinstance(matchers, list):
                continue
            table[event] = [*table.get(event, []), *matchers]
    return table
