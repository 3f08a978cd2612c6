"""Installation of plugins: fetch, review, copy by content, approve, verify later."""

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from agent.i18n import t
from agent.records import frozen
from agent.security.files.private_folder import make_private_folder
from agent.skills.catalog import SkillCatalog, SkillPaths, skill_names
from agent.skills.definition import fold_name
from agent.subagents.catalog import CatalogPaths, SubagentCatalog
from gateway.config.atomic_write import drop_secrets, file_lock, keep_secrets
from gateway.config.installed_plugins import InstalledPlugin, InstalledPlugins, secret_name
from gateway.plugins.copying import copy_plugin
from gateway.plugins.download import hash_file
from gateway.plugins.errors import PluginError
from gateway.plugins.manifest import PluginManifest, read_manifest
from gateway.plugins.market import Markets
from gateway.plugins.options import PluginOption, Value
from gateway.plugins.sources import Source, describe, fetch, name_in, place_of


@frozen
class PluginReview:
    """Plugin under review, with hashes of its files and changes since the installed version.

    `dropped` are links that were left out, `equal_names` remarks about skills with the name of
    another skill, `equal_agents` about agents.
    """

    manifest: PluginManifest
    source: Source
    digest: str
    files: Mapping[str, str]
    size_bytes: int
    dropped: tuple[str, ...] = ()
    equal_names: tuple[str, ...] = ()
    equal_agents: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    market: str = ""
    is_update: bool = False
    folder: Path = field(default=Path(), repr=False)

    @property
    def fingerprint(self) -> str:
        """Hash of everything that a person approves: files, manifest, market entry and origin."""
        approved = [self.digest, asdict(self.manifest), dict(self.source), self.market]
        return hashlib.sha256(json.dumps(approved, sort_keys=True).encode()).hexdigest()


class PluginInstaller:
    """Installer of plugins; `folder` is the `plugins` folder of this Kore."""

    def __init__(self, folder: Path) -> None:
        self.installed = InstalledPlugins(folder)
        self._folder = folder

    @contextmanager
    def fetched(
        self,
        source: Source,
        *,
        base: Path | None = None,
        entry: Mapping[str, Any] | None = None,
        market: str = "",
    ) -> Iterator[PluginReview]:
        """Yield the plugin of a source for review, then delete it. Raises `PluginError`."""
        with tempfile.TemporaryDirectory(prefix="kore-plugin-") as scratch:
            place = fetch(source, Path(scratch) / "source", base)
            copy = Path(scratch) / "copy"
            dropped = copy_plugin(place, copy)
            yield self._review(copy, source, dropped, entry, market)

    @contextmanager
    def fetched_update(self, name: str) -> Iterator[PluginReview]:
        """Yield the current version of an installed plugin's source for review.

        Raises `PluginError`, also if its name has changed.
        """
        plugin = self.find(name)
        source: Source = plugin.source
        more: dict[str, Any] = {"market": plugin.market}
        if plugin.market:
            source, more = Markets(self._folder).locate(f"{name}@{plugin.market}")
        with self.fetched(source, **more) as review:
            if (other := review.manifest.name) != name:
                raise PluginError(
                    t("the plugin {name} now calls itself {other!r}", name=name, other=other[:80])
                )
            yield review

    def install(
        self, review: PluginReview, answers: Mapping[str, Value] | None = None
    ) -> InstalledPlugin:
        """Install and enable a reviewed plugin that a person has approved.

        `answers` to its questions are added to the known ones.
        """
        manifest = review.manifest
        target = self._folder / "cache" / f"{manifest.name}-{review.digest[:16]}"
        secret = {option.key for option in manifest.options if option.is_secret}
        texts = {
            secret_name(manifest.name, key): str(value)
            for key, value in (answers or {}).items()
            if key in secret
        }
        self.check_name(review)
        # The plugin's servers find this folder as `${CLAUDE_PLUGIN_DATA}`.
        make_private_folder(self._folder / "data" / manifest.name)
        with file_lock(self.installed.secrets_file):
            keep_secrets(self.installed.secrets_file, texts)
        with self.installed.edited() as plugins:
            self._keep(review, target)
            before = plugins.get(manifest.name)
            options, secrets = self._divide(manifest.options, answers or {}, before)
            plugin = plugins[manifest.name] = InstalledPlugin(
                name=manifest.name,
                version=manifest.version,
                description=manifest.description,
                source=dict(review.source),
                digest=review.digest,
                folder=str(target.relative_to(self._folder)),
                market=review.market,
                is_pinned=before.is_pinned if before is not None else False,
                skills=manifest.skills,
                commands=manifest.commands,
                agents=manifest.agents,
                servers=dict(manifest.servers),
                hooks=dict(manifest.hooks),
                languages=dict(manifest.languages),
                styles=manifest.styles,
                options=options,
                secret_options=secrets,
                dependencies=manifest.dependencies,
            )
        return plugin

    def check_name(self, review: PluginReview) -> None:
        """Refuse a plugin that has the name of a plugin from another source. Raises `PluginError`.

        Answers, approvals and logins under that name belong to the other plugin.
        """
        name = review.manifest.name
        before = self.installed.load().get(name)
        if before is None or _origin(before) == _origin(review):
            return
        raise PluginError(
            t(
                "there is a plugin {name!r} already, from {source}",
                name=name[:80],
                source=describe(before.source),
            ),
            hint=t("remove it first: kore plugin remove {name}", name=name),
        )

    def _divide(
        self,
        questions: Sequence[PluginOption],
        answers: Mapping[str, Value],
        before: InstalledPlugin | None,
    ) -> tuple[dict[str, Value], tuple[str, ...]]:
        """Return values for the list of plugins, and names of values for secrets.json.

        Earlier answers to questions that still exist are preserved.
        """
        options: dict[str, Value] = {}
        secrets: list[str] = []
        for question in questions:
            if question.is_secret:
                if question.key in answers or (before and question.key in before.secret_options):
                    secrets.append(question.key)
            elif question.key in answers:
                options[question.key] = answers[question.key]
            elif before and question.key in before.options:
                options[question.key] = before.options[question.key]
        return options, tuple(secrets)

    def _keep(self, review: PluginReview, target: Path) -> None:
        """Put the reviewed files into the cache, replacing a copy that was changed since."""
        if target.exists():
            if digest_of(files_in(target)) == review.digest:
                return
            shutil.rmtree(target)
        make_private_folder(target.parent)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as scratch:
            partial = Path(scratch) / "copy"
            shutil.copytree(review.folder, partial)
            if digest_of(files_in(partial)) != review.digest:
                raise PluginError(t("the files have changed since they were shown"))
            partial.rename(target)

    def change(self, name: str, **values: Any) -> InstalledPlugin:
        """Enable, disable or pin a plugin. Raises `PluginError`."""
        with self.installed.edited() as plugins:
            if values.get("is_enabled") is False:
                _check_unneeded(plugins, name)
            plugin = plugins[name] = replace(_find(plugins, name), **values)
        return plugin

    def remove(self, name: str) -> None:
        """Remove a plugin. Raises `PluginError`."""
        with self.installed.edited() as plugins:
            plugin = _find(plugins, name)
            _check_unneeded(plugins, name)
            del plugins[name]
            is_shared = plugin.folder in {
                installed_plugin.folder for installed_plugin in plugins.values()
            }
        if not is_shared:
            shutil.rmtree(self._folder / plugin.folder, ignore_errors=True)
        names = [secret_name(name, key) for key in plugin.secret_options]
        with file_lock(self.installed.secrets_file):
            drop_secrets(self.installed.secrets_file, names)

    def missing(self, manifest: PluginManifest) -> list[str]:
        """Return required plugins that are not enabled, as NAME or NAME@MARKET."""
        used = {plugin.name for plugin in self.installed.enabled()}
        return [name for name in manifest.dependencies if name.partition("@")[0] not in used]

    def known_answers(self, name: str) -> frozenset[str]:
        """Return the questions of an installed plugin that have answers."""
        plugin = self.installed.load().get(name)
        return (
            frozenset() if plugin is None else frozenset({*plugin.options, *plugin.secret_options})
        )

    def find(self, name: str) -> InstalledPlugin:
        """Return the installed plugin of this name. Raises `PluginError`."""
        return _find(self.installed.load(), name)

    def audit(self) -> dict[str, str]:
        """Return for each plugin how its files differ from the approved ones, or ''."""
        return {name: self._difference(plugin) for name, plugin in self.installed.load().items()}

    def _difference(self, plugin: InstalledPlugin) -> str:
        folder = self._folder / plugin.folder
        if not folder.is_dir():
            return t("its files are missing")
        if digest_of(files_in(folder)) != plugin.digest:
            return t("its files have changed since it was approved")
        return ""

    def _review(
        self,
        copy: Path,
        source: Source,
        dropped: tuple[str, ...],
        entry: Mapping[str, Any] | None,
        market: str,
    ) -> PluginReview:
        manifest = read_manifest(copy, entry, name_in(source))
        files = files_in(copy)
        before: dict[str, str] = {}
        current = self.installed.load().get(manifest.name)
        if current is not None:
            before = files_in(self._folder / current.folder)
        return PluginReview(
            manifest=manifest,
            source=source,
            digest=digest_of(files),
            files=files,
            size_bytes=sum((copy / name).stat().st_size for name in files),
            dropped=dropped,
            equal_names=tuple(self._equal_names(copy, manifest)),
            equal_agents=tuple(self._equal_agents(copy, manifest)),
            added=tuple(name for name in files if current is not None and name not in before),
            removed=tuple(name for name in before if name not in files),
            changed=tuple(
                name for name, digest in files.items() if before.get(name, digest) != digest
            ),
            market=market,
            is_update=current is not None,
            folder=copy,
        )

    def _equal_names(self, copy: Path, manifest: PluginManifest) -> Iterator[str]:
        """Yield a remark for each skill with the name of another skill of this installation."""
        home = self._folder.parent
        others = SkillCatalog(
            SkillPaths(
                Path.home(),
                home,
                home,
                plugins=tuple(
                    (plugin, folder)
                    for plugin, folder in self.installed.places("skills")
                    if plugin != manifest.name
                ),
            )
        ).load()
        names = [
            name for place in manifest.skills for name in skill_names(copy / place, manifest.name)
        ]
        last = {fold_name(name): name for name in names}
        for folded, count in Counter(map(fold_name, names)).items():
            name = last[folded]
            title = f"/{manifest.name}:{name}"
            if count > 1:
                yield t("{name}: more than once in this plugin; the last one is used", name=name)
            for other in others.values():
                if fold_name(other.name) != folded:
                    continue
                if other.is_own:
                    yield t("{name}: yours is used, this one is {title}", name=name, title=title)
                else:
                    yield t(
                        "{name}: also in {plugin}; call them {title} and {other}",
                        name=name,
                        plugin=other.plugin,
                        title=title,
                        other=f"/{other.title}",
                    )

    def _equal_agents(self, copy: Path, manifest: PluginManifest) -> Iterator[str]:
        """Yield a remark for each agent with the name of another agent of this installation."""
        places = self.installed.places("agents")
        plugins = [(plugin, folder) for plugin, folder in places if plugin != manifest.name]
        plugins += [(manifest.name, copy / place) for place in manifest.agents]
        home = self._folder.parent
        catalog = SubagentCatalog(CatalogPaths(Path.home(), home, plugins=tuple(plugins)))
        for definition in catalog.load().values():
            if definition.plugin == manifest.name and definition.name == definition.title:
                yield t(
                    "{name}: another agent has this name; this one is {title}",
                    name=definition.name.removeprefix(f"{manifest.name}:"),
                    title=definition.title,
                )


def _check_unneeded(plugins: Mapping[str, InstalledPlugin], name: str) -> None:
    others = [
        plugin.name
        for plugin in plugins.values()
        if plugin.is_enabled and name in {need.partition("@")[0] for need in plugin.dependencies}
    ]
    if others:
        raise PluginError(
            t("{name} is needed by {others}", name=name, others=", ".join(others)),
            hint=t("disable or remove them first"),
        )


def _origin(plugin: InstalledPlugin | PluginReview) -> tuple[str, ...]:
    """Return the market that is responsible for a plugin and may move it, else its source."""
    return (plugin.market,) if plugin.market else place_of(plugin.source)


def _find(plugins: Mapping[str, InstalledPlugin], name: str) -> InstalledPlugin:
    if name not in plugins:
        raise PluginError(
            t("there is no plugin {name!r}", name=name[:80]),
            hint=t("`kore plugin list` shows them"),
        )
    return plugins[name]


def files_in(folder: Path) -> dict[str, str]:
    """Return every file below a folder, with a hash of its content and its executable bit."""
    files: dict[str, str] = {}
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            mode = "x" if os.access(path, os.X_OK) else "-"
            files[str(path.relative_to(folder))] = f"{mode}{hash_file(path)}"
    return files


def digest_of(files: Mapping[str, str]) -> str:
    """Return a hash over all files."""
    rows = json.dumps(sorted(files.items()), ensure_ascii=True)
    return hashlib.sha256(rows.encode()).hexdigest()
