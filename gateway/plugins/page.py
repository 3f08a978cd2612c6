"""Descriptions of plugins for people: before the installation, in lists and in chats."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from agent.i18n import plural, t
from agent.text.visible import escape_line
from gateway.config.foreign.hook_files import hook_lines, hooks_in
from gateway.config.installed_plugins import InstalledPlugin
from gateway.config.secret_keys import mask_text
from gateway.plugins.manifest import PluginManifest
from gateway.plugins.options import PluginOption
from gateway.plugins.sources import describe, is_pinned

if TYPE_CHECKING:
    from gateway.plugins.installation import PluginReview
    from gateway.plugins.market import Market, MarketEntry

_MAX_NAMES = 12
Rows = list[tuple[str, str]]


def review_rows(review: "PluginReview") -> Rows:
    """Return everything that a person approves; programs that would start are never cut short."""
    pinned = t("pinned") if is_pinned(review.source) else t("not pinned")
    size = plural(
        len(review.files),
        "{n:,} file, {size:,} bytes",
        "{n:,} files, {size:,} bytes",
        size=review.size_bytes,
    )
    rows = [
        (t("from"), f"{mask_text(describe(review.source))} ({pinned})"),
        (t("hash"), review.digest),
        (t("files"), size),
        *(_parts(review.manifest, review.files) or [(t("contents"), t("nothing that Kore uses"))]),
        (t("asks for"), ", ".join(map(_question, review.manifest.options))),
        (t("not used"), several(review.manifest.not_used)),
        (t("links left out"), several(review.dropped)),
        (t("equal skill names"), "; ".join(review.equal_names)),
        (t("equal agent names"), "; ".join(review.equal_agents)),
        (t("new files"), several(review.added)),
        (t("changed files"), several(review.changed)),
        (t("removed files"), several(review.removed)),
    ]
    return [row for row in rows if row[1]]


def installed_rows(plugin: InstalledPlugin) -> Rows:
    rows = [
        (t("state"), state_of(plugin)),
        (t("from"), mask_text(describe(plugin.source))),
        (t("hash"), plugin.digest),
        *_parts(plugin),
    ]
    return [row for row in rows if row[1]]


def state_of(plugin: InstalledPlugin) -> str:
    if not plugin.is_enabled:
        return t("disabled")
    return t("pinned") if plugin.is_pinned else t("enabled")


def facts_of(plugin: InstalledPlugin) -> dict[str, Any]:
    """Return an installed plugin as JSON data."""
    return {
        "name": plugin.name,
        "version": plugin.version,
        "description": plugin.description,
        "source": dict(plugin.source),
        "market": plugin.market,
        "digest": plugin.digest,
        "enabled": plugin.is_enabled,
        "pinned": plugin.is_pinned,
        "skills": list(plugin.skills),
        "commands": list(plugin.commands),
        "agents": list(plugin.agents),
        "servers": list(plugin.servers),
        "hooks": _hooks(plugin.hooks),
        "styles": list(plugin.styles),
        "language_servers": list(plugin.languages),
        "options": {**plugin.options, **dict.fromkeys(plugin.secret_options, "***")},
        "dependencies": list(plugin.dependencies),
    }


def market_facts(market: "Market") -> dict[str, Any]:
    """Return a market as JSON data."""
    problems = {entry.name: entry.problem for entry in market.entries if entry.problem}
    return {
        "name": market.name,
        "plugins": len(market.entries),
        "from": mask_text(describe(market.source)),
        "problems": problems,
    }


def entry_facts(entry: "MarketEntry") -> dict[str, Any]:
    """Return a market's entry as JSON data."""
    return {
        "name": entry.name,
        "market": entry.market,
        "description": entry.description,
        "version": entry.version,
        "source": dict(entry.source),
        "problem": entry.problem,
    }


def several(names: Sequence[str]) -> str:
    """Return the first names and the number of further ones."""
    first = ", ".join(names[:_MAX_NAMES])
    more = len(names) - _MAX_NAMES
    return first if more <= 0 else f"{first}, … (+{more})"


def _parts(plugin: PluginManifest | InstalledPlugin, files: Collection[str] = ()) -> Rows:
    """Return a plugin's parts, by name if its `files` are given, else by folder."""
    rows = [
        (t("skills"), several(_names(plugin.skills, files, "SKILL.md"))),
        (t("commands"), several(_names(plugin.commands, files))),
        (t("agents"), several(_names(plugin.agents, files))),
        (t("MCP servers"), ", ".join(_server(*server) for server in plugin.servers.items())),
        (t("hooks"), ", ".join(_hooks(plugin.hooks))),
        (t("language servers"), ", ".join(_server(*each) for each in plugin.languages.items())),
        (t("output styles"), several(plugin.styles)),
        (t("needs"), ", ".join(plugin.dependencies)),
    ]
    return [row for row in rows if row[1]]


def _names(
    places: Sequence[str], files: Collection[str], file_name: str | None = None
) -> Sequence[str]:
    """Return the names of the markdown files in these places.

    If all of them have the same `file_name`, the name is the folder's.
    """
    names = []
    for file in map(PurePosixPath, files):
        if not any(place == "." or file.is_relative_to(place) for place in places):
            continue
        if file_name is not None and file.name == file_name:
            names.append(file.parent.name or file.stem)
        elif file_name is None and file.suffix == ".md" and file.stem.casefold() != "readme":
            names.append(file.stem)
    return [escape_line(name) for name in dict.fromkeys(names)] or places


def _question(option: PluginOption) -> str:
    return f"{option.key} ({t('secret')})" if option.is_secret else option.key


def _hooks(hooks: Mapping[str, Any]) -> list[str]:
    table, _ = hooks_in({"hooks": hooks}, "")
    return list(hook_lines(table))


def _server(name: str, server: Mapping[str, Any]) -> str:
    words = [str(server.get("url") or server.get("command") or "")]
    if isinstance(args := server.get("args"), list):
        words += map(str, args)
    if isinstance(env := server.get("env"), Mapping):
        words = [*(f"{key}={shlex.quote(str(value))}" for key, value in env.items()), *words]
    if isinstance(headers := server.get("headers"), Mapping):
        words += [f"{key}: {value}" for key, value in headers.items()]
    return escape_line(f"{name} = {' '.join(words)}")
