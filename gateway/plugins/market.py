"""Markets: lists of plugins in `.claude-plugin/marketplace.json` of a folder or a source."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.i18n import t
from agent.records import frozen
from agent.security.files.private_folder import make_private_folder
from agent.text import ranking
from agent.text.visible import escape_line
from gateway.config.atomic_write import file_lock, write_atomic
from gateway.plugins.errors import PluginError
from gateway.plugins.manifest import is_name, read_manifest, read_object
from gateway.plugins.sources import (
    Source,
    check_remote,
    describe,
    fetch,
    is_local,
    place_of,
    source_of,
)

INDEX = Path(".claude-plugin", "marketplace.json")
_FILE = "markets.json"


@frozen
class MarketEntry:
    """Entry of a market. `raw` is the whole entry; `problem` says why it cannot be installed."""

    market: str
    name: str
    description: str
    version: str
    source: Source
    raw: Mapping[str, Any]
    problem: str = ""


@frozen
class Market:
    """Market with its name, its source and the folder of its copy."""

    name: str
    source: Source
    folder: Path
    entries: tuple[MarketEntry, ...]


class Markets:
    """Markets of this Kore in its folder `plugins`; reading them needs no network."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, source: Source, name: str = "") -> Market:
        """Fetch and store a market; `name` is the name of the market to update.

        A market never replaces another one. Raises `PluginError`.
        """
        top = self._folder / "markets"
        make_private_folder(top)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=top) as scratch:
            place = fetch(source, Path(scratch) / "source")
            market = read_market(place, source)
            if name and market.name != name:
                text = t(
                    "the market {name} now calls itself {other!r}", name=name, other=market.name
                )
                raise PluginError(text)
            is_folder = source.get("source") == "folder"
            target = place if is_folder else top / market.name
            with self._edited() as rows:
                before = rows.get(market.name)
                if before is not None and place_of(before["source"]) != place_of(source):
                    raise PluginError(
                        t(
                            "there is a market {name!r} already, from {source}",
                            name=market.name[:80],
                            source=describe(before["source"]),
                        ),
                        hint=t("remove it first: kore market remove {name}", name=market.name),
                    )
                if not is_folder:
                    if target.exists():
                        target.rename(Path(scratch) / "before")
                    place.rename(target)
                rows[market.name] = {"source": dict(source), "folder": str(target)}
        return read_market(target, source)

    def update(self, name: str) -> Market:
        """Fetch a market again. Raises `PluginError`."""
        rows = self._rows()
        if name not in rows:
            raise PluginError(
                t("there is no market {name!r}", name=name[:80]),
                hint=t("`kore market list` shows them"),
            )
        return self.add(rows[name]["source"], name)

    def remove(self, name: str) -> None:
        """Forget a market. Raises `PluginError`."""
        with self._edited() as rows:
            if name not in rows:
                raise PluginError(t("there is no market {name!r}", name=name[:80]))
            row = rows.pop(name)
        copy = Path(row["folder"])
        if copy.is_relative_to(self._folder):
            shutil.rmtree(copy, ignore_errors=True)

    def load(self) -> list[Market]:
        """Return all readable markets."""
        markets = []
        for row in self._rows().values():
            try:
                markets.append(read_market(Path(row["folder"]), row["source"]))
            except PluginError:
                continue
        return markets

    def search(self, words: str) -> list[MarketEntry]:
        """Return plugins of all markets that match, best first; all of them for no words."""
        entries = [entry for market in self.load() for entry in market.entries]
        terms = ranking.query_terms(words)
        if not terms:
            return entries
        scores = ranking.scores(terms, [_searchable(entry) for entry in entries])
        ranked = sorted(zip(scores, entries, strict=True), key=lambda pair: -pair[0])
        return [entry for score, entry in ranked if score > 0]

    def find(self, name: str) -> tuple[MarketEntry, Path]:
        """Return a plugin by NAME or NAME@MARKET, and its market's folder. Raises `PluginError`."""
        plugin, _, market = name.partition("@")
        matches = [
            (entry, item.folder)
            for item in self.load()
            for entry in item.entries
            if entry.name == plugin and market in ("", item.name)
        ]
        if not matches:
            raise PluginError(
                t("no market has a plugin {name!r}", name=name[:80]),
                hint=t("`kore market search WORDS` finds plugins"),
            )
        if len(matches) > 1:
            names = ", ".join(f"{plugin}@{entry.market}" for entry, _ in matches)
            raise PluginError(t("several markets have it: {names}", names=names))
        return matches[0]

    def locate(self, name: str) -> tuple[Source, dict[str, Any]]:
        """Return the source of a plugin and facts for its installation. Raises `PluginError`."""
        entry, folder = self.find(name)
        if entry.problem:
            raise PluginError(f"{entry.name}: {entry.problem}")
        return entry.source, {"base": folder, "entry": entry.raw, "market": entry.market}

    def locate_source(
        self, text: str, ref: str | None = None, *, has_folder: bool = True
    ) -> tuple[Source, dict[str, Any]]:
        """Return the source that a person names, and facts for the installation.

        The text is NAME[@MARKET] or anything that `source_of` accepts. Without `has_folder` a path
        must begin with / or ~. Raises `PluginError`.
        """
        is_path = text.startswith(("/", "~")) or (has_folder and Path(text).exists())
        if "/" in text or ":" in text or is_path:
            return source_of(text, ref, has_folder=has_folder), {}
        return self.locate(text)

    def _rows(self) -> dict[str, Any]:
        path = self._folder / _FILE
        return read_object(path) if path.is_file() else {}

    @contextmanager
    def _edited(self) -> Iterator[dict[str, Any]]:
        """Yield the list for changes and save it at the end; other callers wait."""
        path = self._folder / _FILE
        with file_lock(path):
            rows = self._rows()
            yield rows
            write_atomic(path, json.dumps(rows, indent=1) + "\n")


def read_market(folder: Path, source: Source) -> Market:
    """Read the market in a folder. Raises `PluginError`."""
    data = read_object(folder / INDEX)
    name, plugins = data.get("name"), data.get("plugins")
    if not isinstance(name, str) or not is_name(name) or name.startswith("."):
        raise PluginError(t("{path}: the market has no name", path=folder / INDEX))
    if not isinstance(plugins, list):
        raise PluginError(t("{path}: expected a list of plugins", path=folder / INDEX))
    metadata = data.get("metadata")
    top = metadata.get("pluginRoot", "") if isinstance(metadata, dict) else ""
    is_own = is_local(source)
    entries = (
        _entry(name, plugin, str(top), is_own) for plugin in plugins if isinstance(plugin, dict)
    )
    return Market(name, source, folder, tuple(entries))


def make_index(folder: Path, name: str) -> Path:
    """Write the index of a folder whose subfolders are plugins. Raises `PluginError`."""
    plugins = []
    for place in sorted(folder.iterdir()):
        if place.is_dir() and not place.name.startswith("."):
            manifest = read_manifest(place)
            if any((manifest.skills, manifest.commands, manifest.agents, manifest.servers)):
                plugins.append(
                    {
                        "name": manifest.name,
                        "source": f"./{place.name}",
                        "description": manifest.description,
                        **({"version": manifest.version} if manifest.version else {}),
                    }
                )
    if not plugins:
        raise PluginError(t("{folder}: there are no plugins in it", folder=folder))
    path = folder / INDEX
    path.parent.mkdir(exist_ok=True)
    content = {"name": name, "owner": {"name": name}, "plugins": plugins}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _entry(market: str, raw: Mapping[str, Any], top: str, is_own: bool) -> MarketEntry:
    name = escape_line(str(raw.get("name") or ""))
    problem = "" if name else t("an entry without a name")
    source: Source = {}
    try:
        source = _source(raw.get("source"), top)
        if not is_own or str(source.get("url")).startswith("http://"):
            check_remote(source)
    except PluginError as exc:
        problem = problem or str(exc)
    return MarketEntry(
        market=market,
        name=name,
        description=escape_line(" ".join(str(raw.get("description") or "").split())),
        version=escape_line(str(raw.get("version") or "")),
        source=source,
        raw=raw,
        problem=problem,
    )


def _source(value: Any, top: str) -> Source:
    """Return a source; a text is a path from the market's folder, an object names its kind."""
    if isinstance(value, str):
        path = value if value.startswith("./") or not top else f"{top}/{value}"
        if ".." in Path(path).parts or path.startswith("/"):
            raise PluginError(t("{path} leaves its market", path=value[:200]))
        return {"source": "relative", "path": path}
    if isinstance(value, dict) and isinstance(value.get("source"), str):
        kind = value["source"]
        if kind in ("github", "url", "git", "git-subdir", "npm", "archive"):
            return value
        raise PluginError(t("sources of the kind {kind!r} are not supported", kind=kind[:80]))
    raise PluginError(t("an entry without a source"))


def _searchable(entry: MarketEntry) -> str:
    words = [entry.name.replace("-", " "), entry.description, str(entry.raw.get("category") or "")]
    for key in ("keywords", "tags"):
        value = entry.raw.get(key)
        words += [str(item) for item in value] if isinstance(value, list) else []
    return " ".join(words)
