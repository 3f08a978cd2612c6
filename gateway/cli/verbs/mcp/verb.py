"""Command `kore mcp`: add, list, test and remove MCP servers, and show their logs."""

import argparse
import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, KoreError, ToolError
from agent.i18n import t
from agent.mcp.listing import McpToolDefinition, ServerListing
from agent.mcp.login_file import LoginOptions
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings
from agent.security.network.targets import NetworkReach
from agent.security.policy.roles import ANY
from agent.security.sandbox import environment
from agent.settings import ToolSettings
from agent.text.display_width import shortened
from gateway.access.added_folders import named_folder
from gateway.cli.folders import config_path, current_folder, data_dir_of
from gateway.cli.output import clean, clean_lines, print_json, print_table, tell
from gateway.cli.settings import settings_of, sources_of
from gateway.cli.verbs.mcp.named_paths import NeededFolder, absolute, needed_folders
from gateway.config import Settings, editing
from gateway.config.atomic_write import file_lock
from gateway.config.foreign.formats import read_foreign
from gateway.config.installed_plugins import InstalledPlugins
from gateway.config.sections import McpServer
from gateway.config.servers import login_key_variable, mcp_settings, plugin_servers, server_of
from gateway.runtime.sandbox import (
    choose_sandbox,
    fixed_files,
    off_limits,
    own_services,
    sandbox_options,
)
from gateway.store.cipher import cipher_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_MAX_SHOWN_CHARS = 60


def run(args: argparse.Namespace) -> int:
    """Return 0, or 1 if a tested server cannot be reached. Raises `KoreError`."""
    actions = {
        "list": _list,
        "add": _add,
        "test": _test,
        "remove": _remove,
        "allow": _allow,
        "logs": _logs,
    }
    return actions[args.action](args)


def open_servers(args: argparse.Namespace, settings: Settings, sandbox: Any = None) -> McpServers:
    """Return the servers of the configuration and of the plugins; none is started yet."""
    home = data_dir_of(args)
    tools = ToolSettings(
        sandbox=sandbox,
        blocked_paths=settings.security.blocked_paths,
        off_limits=off_limits(settings, home),
        fixed_files=fixed_files(settings),
        own_services=own_services(settings, home),
    )
    logins = LoginOptions(args.crash.redactor.learn)
    plugins = InstalledPlugins(home.plugins)
    sealer = cipher_of(login_key_variable(settings, plugins), os.environ)
    configured = mcp_settings(settings, home.mcp, sealer, plugins)
    return McpServers(configured, tools, logins=logins)


def _plugin_servers(args: argparse.Namespace) -> dict[str, McpServer]:
    return plugin_servers(InstalledPlugins(data_dir_of(args).plugins))


def _list(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    servers = open_servers(args, settings)
    rows: list[dict[str, Any]] = []
    of_plugins = _plugin_servers(args)
    for name, server in {**of_plugins, **settings.mcp_servers}.items():
        listing = servers.listing(name) if server.enabled else None
        rows.append(
            {
                "name": name,
                "server": server.url or " ".join([server.command or "", *server.args]),
                "enabled": server.enabled,
                "tools": None if listing is None else len(listing.tools),
                "network": None if server.url else list(server.network),
                "from": _source_of(settings, name) if name in settings.mcp_servers else "plugin",
            }
        )
    if args.json:
        print_json(args.crash.redactor.clean_data(rows))
        return 0
    for note in settings.notes:
        tell(clean(note))
    if not rows:
        print(t("no MCP servers; `kore mcp add NAME URL` adds one"))
        return 0
    print_table(
        ("name", "server", "tools", "network"),
        [
            (
                str(row["name"]),
                _short(args.crash.redactor.clean(str(row["server"]))),
                _state(row),
                _reach(row["network"]),
            )
            for row in rows
        ],
    )
    return 0


def _state(row: dict[str, Any]) -> str:
    if not row["enabled"]:
        return t("disabled")
    return t("not started yet") if row["tools"] is None else str(row["tools"])


def _reach(network: Sequence[str] | None) -> str:
    """Return the hosts and targets of a started server in words."""
    if network is None:
        return ""
    hosts = [t("public hosts") if entry == ANY else entry for entry in network]
    return ", ".join(hosts) or t("none")


def _show_targets(network: Sequence[str]) -> None:
    """Print what a server may reach on this machine and in private networks, and what it means."""
    reach = NetworkReach.parse(network)
    places = [*map(str, reach.services), *map(str, reach.targets)]
    if not places:
        return
    print(
        t(
            "it may reach, also on this machine and in private networks: {places}",
            places=", ".join(places),
        )
    )
    for service in reach.services:
        if service.is_engine:
            print(t("{service} makes it root on this machine", service=service))


def _add(args: argparse.Namespace) -> int:
    if not _NAME.fullmatch(args.name):
        raise KoreError(
            t("found the name {name!r}, expected letters, digits, - and _", name=args.name[:80])
        )
    settings = settings_of(args)
    # A server of the owner takes precedence over a project's server of the same name.
    is_elsewhere = ("mcp_servers", args.name) in settings.places
    if args.name in settings.mcp_servers and not is_elsewhere:
        raise KoreError(
            t("there is an MCP server {name} already", name=args.name),
            hint=t("`kore mcp remove {name}` removes it", name=args.name),
        )
    value = _server_entry(args)
    needed = _needed_folders(args, settings, value)
    if sys.stdin.isatty() and not args.json:
        needed = [each for each in needed if not _offer(args.name, each, value)]
    line = _write(args, ("mcp_servers", args.name), value)
    if args.json:
        paths = {str(each.path): each.access for each in needed}
        print_json({"name": args.name, "file": line, "paths": paths})
        return 0
    print(t("added {name} to {file}", name=args.name, file=line))
    _show_targets(value.get("network", ()))
    for each in needed:
        tell(_describe_need(args.name, each))
    print(t("`kore mcp test {name}` starts it and shows its tools", name=args.name))
    return 0


def _needed_folders(
    args: argparse.Namespace, settings: Settings, value: Mapping[str, Any]
) -> list[NeededFolder]:
    """Return the folders that a new server needs and cannot open."""
    if "url" in value or settings.security.sandbox == "none":
        return []
    home = data_dir_of(args)
    options = sandbox_options(settings, home.root)
    further = (*options.readable_folders, *options.toolchains.folders, *options.toolchains.caches)
    server = server_of(args.name, McpServer.model_validate(value))
    closed, readable = off_limits(settings, home), environment.readable_files(further)
    return list(needed_folders(server, Path.home(), closed, readable))


def _offer(name: str, need: NeededFolder, value: dict[str, Any]) -> bool:
    """Ask whether to open the folder, and add it to the entry; return whether it was added."""
    if need.folder is None:
        return False
    tell(_describe_path(name, need))
    is_readable = need.access == "read"
    question = (
        t("Let it change {folder}? [w]rite, [N]o: ", folder=clean(str(need.folder)))
        if is_readable
        else t("Open {folder} for it? [r]ead, [w]rite, [N]o: ", folder=clean(str(need.folder)))
    )
    print(question, end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip().lower()[:1]
    access = {"w": "write", "r": None if is_readable else "read"}.get(answer)
    if access is not None:
        value["folders"] = {**value.get("folders", {}), str(need.folder): access}
    return access is not None


def _describe_path(name: str, need: NeededFolder) -> str:
    path = clean(str(need.path))
    if need.access == "read":
        return t("{name} can only read {path}", name=name, path=path)
    return t("{name} cannot open {path}", name=name, path=path)


def _describe_need(name: str, need: NeededFolder) -> str:
    """Return a sentence about a path that the server cannot open, and the remedy."""
    if need.folder is None:
        remedy = t("move it into a folder of its own")
    else:
        remedy = t(
            "`--add-dir {folder}` lets it read and change that folder, `--add-read-dir` read it",
            folder=clean(str(need.folder)),
        )
    return f"{_describe_path(name, need)}; {remedy}"


def _server_entry(args: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration entry for `kore mcp add`."""
    first, *rest = args.target
    value: dict[str, Any]
    if first.startswith(("http://", "https://")):
        if rest or args.env:
            raise KoreError(t("a URL takes no arguments and no variables, only --header"))
        value = {"url": first, **({"type": "sse"} if args.sse else {})}
        headers = dict(_pair(text, ":") for text in args.header)
        return value | ({"headers": headers} if headers else {}) | _allow_entry(args)
    if args.header:
        raise KoreError(t("--header is for a URL; a command takes --env"))
    here = current_folder()
    folder = Path(args.folder).expanduser().resolve() if args.folder else None

    def stored(word: str) -> str:
        path = absolute(word, here, folder)
        if path != word:
            tell(t("{word} is stored as {path}", word=clean(word), path=clean(path)))
        return path

    # A command without a slash is a program on PATH.
    command = stored(first) if "/" in first else first
    value = {"command": command, "args": [*map(stored, rest)]}
    if args.env:
        pairs = dict(_pair(text, "=") for text in args.env)
        value["env"] = {name: stored(text) for name, text in pairs.items()}
    if folder is not None:
        value["folder"] = str(folder)
    accesses = {"read": args.add_read_dir, "write": args.add_dir}
    folders = {
        str(named_folder(name, here).path): access
        for access, names in accesses.items()
        for name in names
    }
    if folders:
        value["folders"] = folders
    if args.read_only:
        value["read_only"] = True
    if args.network:
        value["network"] = [host for host in args.network if host != "none"]
    return value | _allow_entry(args)


def _allow_entry(args: argparse.Namespace) -> dict[str, Any]:
    return {"allow": args.allow} if args.allow else {}


def _pair(text: str, separator: str) -> tuple[str, str]:
    name, mark, value = text.partition(separator)
    if not mark or not name.strip():
        raise KoreError(
            t("found {text!r}, expected NAME{separator}VALUE", text=text, separator=separator)
        )
    return name.strip(), value.strip()


def _write(args: argparse.Namespace, path: tuple[str, ...], value: Any) -> Path:
    """Write a value to the configuration, or remove it (None). Raises `ConfigError`."""
    sources, file = sources_of(args), config_path(args, data_dir_of(args))
    with file_lock(file):
        change = (
            editing.unsetting(sources, file, path)
            if value is None
            else editing.setting(sources, file, path, value)
        )
        change.write(sources)
    return file


def _remove(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    _find_own_server(args, settings)
    # Without loading the servers, so that an invalid server can be removed as well.
    none = settings.model_copy(update={"mcp_servers": {}})
    file = _write(args, ("mcp_servers", args.name), None)
    shutil.rmtree(open_servers(args, none).folder_of(args.name), ignore_errors=True)
    if args.json:
        print_json({"name": args.name, "file": str(file)})
    else:
        print(t("removed {name} from {file}", name=args.name, file=file))
    return 0


def _allow(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    definition = _imported_definition(args, settings)
    server = _find_own_server(args, settings) if definition is None else McpServer(**definition)
    listing = open_servers(args, settings).listing(args.name)
    names = [] if listing is None else [tool.name for tool in listing.tools]
    if names and not args.revoke and not any(fnmatchcase(name, args.tool) for name in names):
        raise KoreError(
            t("{name} has no tool {tool!r}", name=args.name, tool=args.tool[:80]),
            hint=t("its tools: {names}", names=", ".join(clean(name) for name in names)),
        )
    allow = [pattern for pattern in server.allow if pattern != args.tool]
    if not args.revoke:
        allow.append(args.tool)
    if definition is None:
        file = _write(args, ("mcp_servers", args.name, "allow"), allow)
    else:
        file = _write(args, ("mcp_servers", args.name), {**definition, "allow": allow})
        tell(t("copied the server {name} to {file}", name=args.name, file=file))
    if args.json:
        print_json({"name": args.name, "allow": allow, "file": str(file)})
    elif args.revoke:
        print(t("{tool} of {name} asks again", tool=args.tool, name=args.name))
    else:
        print(t("{tool} of {name} runs without asking", tool=args.tool, name=args.name))
        if not server.trusted_with_private_data:
            tell(
                t(
                    "in a conversation with private data it still asks, unless the server is "
                    "trusted with such data: `kore config set "
                    "mcp_servers.{name}.trusted_with_private_data true`",
                    name=args.name,
                )
            )
    return 0


def _logs(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    find_server(args, settings)
    path = open_servers(args, settings).folder_of(args.name) / "log"
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        print(t("no output from {name} yet", name=args.name), file=sys.stderr)
        return 0
    for line in lines[-args.lines :]:
        print(clean(args.crash.redactor.clean(line)))
    return 0


def _test(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    server = find_server(args, settings)
    if not server.enabled:
        raise KoreError(t("the MCP server {name} is disabled", name=args.name))
    return asyncio.run(_show_tools(args, settings, server))


async def _show_tools(args: argparse.Namespace, settings: Settings, server: McpServer) -> int:
    choice = await choose_sandbox(settings, data_dir_of(args))
    servers = open_servers(args, settings, choice.sandbox)
    try:
        listing = await servers.refresh(args.name)
        changes = servers.changes(args.name)
        if args.accept:
            await servers.accept(args.name)
    except ToolError as exc:
        log = servers.folder_of(args.name) / "log"
        hint = t("`kore mcp logs {name}` shows its log", name=args.name)
        if args.json:
            print_json({"name": args.name, "failure": str(exc)})
            return 1
        raise KoreError(str(exc), hint=hint if log.exists() else None) from None
    finally:
        await servers.aclose()
    _print_tools(args, server_of(args.name, server), listing, changes)
    return 0


def _print_tools(
    args: argparse.Namespace,
    server: McpServerSettings,
    listing: ServerListing,
    changes: Mapping[str, McpToolDefinition | None],
) -> None:
    if args.json:
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "offered": server.offers(tool.name),
                "allowed": server.allows(tool.name),
                "changed": tool.name in changes,
            }
            for tool in listing.tools
        ]
        offer = {"name": args.name, "protocol": listing.protocol, "tools": tools}
        offer["prompts"] = [prompt.name for prompt in listing.prompts]
        print_json({**offer, "left_out": listing.left_out})
        return
    print(
        t(
            "{name} works (protocol version {version})",
            name=args.name,
            version=clean(listing.protocol),
        )
    )
    for tool in listing.tools:
        marks = []
        if not server.offers(tool.name):
            marks.append(t("not offered"))
        elif tool.name in changes and not args.accept:
            is_new = changes[tool.name] is None
            marks.append(t("new: asks, untrusted") if is_new else t("changed: asks again"))
        elif server.allows(tool.name):
            marks.append(t("runs without asking"))
        mark = f" ({', '.join(marks)})" if marks else ""
        _print_part(f"{clean(tool.name)}{mark}", tool.description)
        if tool.name in changes:
            _print_change(changes[tool.name], tool)
    for prompt in listing.prompts:
        _print_part(f"/{clean(args.name)}:{clean(prompt.name)}", prompt.description)
    for name in listing.left_out:
        _print_part(clean(name), t("cannot be read, so it is left out"))
    if changes and args.accept:
        print(t("accepted in their current version: {names}", names=", ".join(map(clean, changes))))
    elif changes:
        print(t("`kore mcp test {name} --accept` accepts the changes", name=args.name))


def _print_change(before: McpToolDefinition | None, tool: McpToolDefinition) -> None:
    """Print the differences in a tool's texts for the model since the accepted version."""
    texts = [
        json.dumps(
            [version.description, version.parameters], indent=1, ensure_ascii=False
        ).splitlines()
        for version in (before, tool)
        if version is not None
    ]
    old, new = texts if before is not None else ([], *texts)
    for line in islice(unified_diff(old, new, n=1, lineterm=""), 2, None):
        print(f"    {clean_lines(line)}")


def _print_part(name: str, description: str) -> None:
    """Print one line, shortened to the terminal's width."""
    text = f"  {name}: {clean_lines(' '.join(description.split()))}"
    columns = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    print(shortened(text, max(columns or len(name) + _MAX_SHOWN_CHARS, len(name) + 5)))


def _source_of(settings: Settings, name: str) -> str:
    """Return the place where a server is configured."""
    place = settings.places.get(("mcp_servers",), "default")
    return settings.places.get(("mcp_servers", name), place)


def _imported_definition(args: argparse.Namespace, settings: Settings) -> Mapping[str, Any] | None:
    """Return the definition of a server in another program's file of the person; else None.

    Only a copy in the person's own configuration can be allowed more. A project's server is not
    copied, because the copy would exist in every folder.
    """
    if ("mcp_servers", args.name) not in settings.places:
        return None
    path = Path(_source_of(settings, args.name))
    config = read_foreign(path) if path in settings.private_files else None
    servers = config.values.get(("mcp_servers",), {}) if config is not None else {}
    definition: Mapping[str, Any] | None = servers.get(args.name)
    return definition


def _find_own_server(args: argparse.Namespace, settings: Settings) -> McpServer:
    """Return a server of the owner's own configuration. Raises `ConfigError`."""
    server = settings.mcp_servers.get(args.name)
    if ("mcp_servers", args.name) in settings.places:
        place = _source_of(settings, args.name)
        raise ConfigError(
            t("the MCP server {name} comes from {file}", name=args.name, file=place),
            hint=t("change it there, or copy it into your own file with `kore config import`"),
        )
    if server is None:
        find_server(args, settings)
        raise ConfigError(
            t("the MCP server {name} comes from a plugin", name=args.name),
            hint=t("`kore plugin disable NAME` switches a plugin off"),
        )
    return server


def find_server(args: argparse.Namespace, settings: Settings) -> McpServer:
    """Return a server of the configuration or of a plugin. Raises `ConfigError`."""
    server = settings.mcp_servers.get(args.name) or _plugin_servers(args).get(args.name)
    if server is None:
        raise ConfigError(
            t("there is no MCP server {name!r}", name=args.name[:80]),
            hint=t("`kore mcp list` shows them"),
        )
    return server


def _short(text: str) -> str:
    line = clean_lines(" ".join(text.split()))
    return line if len(line) <= _MAX_SHOWN_CHARS else f"{line[: _MAX_SHOWN_CHARS - 1]}…"
