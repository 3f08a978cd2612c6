"""Plugin management for people who are not at this machine's terminal.

The steps are the same as in `kore plugin` and `kore market`: a plugin is reviewed first, and
exactly the reviewed files are installed. All functions block.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.i18n import plural, t
from agent.text.visible import escape_line
from gateway.config.installed_plugins import InstalledPlugin
from gateway.config.secret_keys import masked
from gateway.core.records import PluginChange
from gateway.plugins.errors import PluginError
from gateway.plugins.installation import PluginInstaller, PluginReview
from gateway.plugins.market import Market, MarketEntry, Markets
from gateway.plugins.options import answers_of
from gateway.plugins.page import (
    entry_facts,
    facts_of,
    installed_rows,
    market_facts,
    review_rows,
)
from gateway.plugins.sources import is_pinned, source_of

_MAX_FILES = 500
_MAX_ENTRIES = 500


class PluginManager:
    """Manager of this Kore's plugins in its folder `plugins`.

    With `is_watched` this process applies changes itself; otherwise another process reads them at
    its start.
    """

    def __init__(self, folder: Path, *, is_watched: bool) -> None:
        self._installer = PluginInstaller(folder)
        self._markets = Markets(folder)
        self._is_watched = is_watched

    def list_plugins(self) -> Sequence[Mapping[str, Any]]:
        """Return the plugins with their parts; `rows` are label and text."""
        return [_facts(plugin) for plugin in self._installer.installed.load().values()]

    def list_markets(self) -> Sequence[Mapping[str, Any]]:
        return [market_facts(market) for market in self._markets.load()]

    def search(self, words: str, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return entries of all markets that match the words; all entries for no words."""
        installed = self._installer.installed.load()
        entries = self._markets.search(words)[: max(0, min(limit, _MAX_ENTRIES))]
        return [_entry(entry, installed) for entry in entries]

    def look_at(self, source: str, ref: str, *, is_update: bool) -> Mapping[str, Any]:
        """Fetch a plugin and show it without keeping it. Raises `PluginError`."""
        with self._fetched(source, ref, is_update) as review:
            self._installer.check_name(review)
            return self._review(review)

    def install(
        self, source: str, review: str, answers: Mapping[str, str], ref: str, *, is_update: bool
    ) -> str:
        """Install a plugin unless it changed since the review. Raises `PluginError`."""
        with self._fetched(source, ref, is_update) as current:
            manifest = current.manifest
            if current.fingerprint != review:
                raise PluginError(
                    t("{name} has changed since it was shown", name=manifest.name),
                    hint=t("look at it again before you install it"),
                )
            if not is_update and (needs := self._installer.missing(manifest)):
                raise PluginError(
                    t("{name} needs {others}", name=manifest.name, others=", ".join(needs)),
                    hint=t("install them first"),
                )
            before = self._installer.known_answers(manifest.name)
            values = answers_of(manifest.options, answers, before)
            plugin = self._installer.install(current, values)
        return self._say(t("installed {name} {version}", name=plugin.name, version=plugin.version))

    def change(self, name: str, change: PluginChange) -> str:
        """Apply a change to a plugin. Raises `PluginError`."""
        match change:
            case "remove":
                self._installer.remove(name)
                return self._say(t("removed: {name}", name=name))
            case "pin" | "unpin":
                self._installer.change(name, is_pinned=change == "pin")
                if change == "pin":
                    return t("{name} stays as it is", name=name)
                return t("{name} is updated with the others", name=name)
        self._installer.change(name, is_enabled=change == "enable")
        is_enabled = change == "enable"
        return self._say(t("{name} is enabled" if is_enabled else "{name} is disabled", name=name))

    def add_market(self, source: str, ref: str) -> str:
        """Add a market. Raises `PluginError`."""
        place = source_of(source.strip(), ref or None, has_folder=False)
        return _count(self._markets.add(place))

    def update_market(self, name: str) -> str:
        """Update a market. Raises `PluginError`."""
        return _count(self._markets.update(name))

    def remove_market(self, name: str) -> str:
        """Remove a market. Raises `PluginError`."""
        self._markets.remove(name)
        return t("removed: {name}", name=name)

    @contextmanager
    def _fetched(self, source: str, ref: str, is_update: bool) -> Iterator[PluginReview]:
        if is_update:
            with self._installer.fetched_update(source) as review:
                yield review
            return
        place, more = self._markets.locate_source(source.strip(), ref or None, has_folder=False)
        with self._installer.fetched(place, **more) as review:
            yield review

    def _review(self, review: PluginReview) -> dict[str, Any]:
        manifest = review.manifest
        before = self._installer.installed.load().get(manifest.name)
        answered = self._installer.known_answers(manifest.name)
        return {
            "name": manifest.name,
            "version": manifest.version,
            "description": manifest.description,
            "digest": review.digest,
            "review": review.fingerprint,
            "rows": [list(row) for row in review_rows(review)],
            "files": [escape_line(name) for name in list(review.files)[:_MAX_FILES]],
            "is_update": review.is_update,
            "is_current": before is not None and before.digest == review.digest,
            "needs": self._needs(review),
            "options": [
                {**asdict(option), "is_known": option.key in answered}
                for option in manifest.options
            ],
        }

    def _needs(self, review: PluginReview) -> list[str]:
        """Return plugins that must be installed first, as arguments of `look_at`."""
        market = f"@{review.market}" if review.market else ""
        missing = self._installer.missing(review.manifest)
        return [name if "@" in name else f"{name}{market}" for name in missing]

    def _say(self, sentence: str) -> str:
        sentence = sentence.strip()
        return sentence if self._is_watched else f"{sentence}. {t('Restart Kore to use it.')}"


def _facts(plugin: InstalledPlugin) -> dict[str, Any]:
    facts = facts_of(plugin)
    facts["source"] = masked(facts["source"])
    return {**facts, "rows": [list(row) for row in installed_rows(plugin)]}


def _entry(entry: MarketEntry, installed: Mapping[str, InstalledPlugin]) -> dict[str, Any]:
    facts = entry_facts(entry)
    del facts["source"]
    plugin = installed.get(entry.name)
    is_installed = plugin is not None and plugin.market == entry.market
    return {**facts, "pinned": is_pinned(entry.source), "installed": is_installed}


def _count(market: Market) -> str:
    return plural(
        len(market.entries),
        "{name}: {n:,} plugin",
        "{name}: {n:,} plugins",
        name=market.name,
    )
