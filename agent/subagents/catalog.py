"""Catalogue of agents for a folder: built-in agents, the owner's and the project's."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from agent.context.project.instructions import project_folders
from agent.records import frozen
from agent.security.files.paths import normalize_filename
from agent.security.files.safe_open import open_regular
from agent.security.taint.file_marks import MarkLevel, OpenFileMark, mark_level
from agent.security.taint.origin import TrustedOrigins, unconfirmed_notice
from agent.security.taint.worktree_record import WorktreeRecord
from agent.subagents.definition import BUILT_IN, SubagentDefinition, read_definition
from agent.text import frontmatter
from agent.text.plugin_names import distinct_names, entry_name, find_named
from agent.text.visible import hidden_character

PROGRAMS = (".claude", ".kode", ".kore")
_DEPTH = 3
_MAX_FILES = 2_000
_MAX_FOLDERS = 32
_ALIASES = {
    "generalpurpose": "general",
    "explorer": "explore",
    "reviewer": "review",
    "codereviewer": "review",
    "codereview": "review",
}
# Agent that answers if no other is chosen.
_MAIN = "main"
log = logging.getLogger(__name__)
_Key = tuple[int, int, int]


@frozen
class _AgentFile:
    """Parsed file with the key that detects changes, and its taint mark at the time of reading."""

    key: _Key
    definition: SubagentDefinition | None = None
    mark: OpenFileMark | None = None


_CachedFiles = dict[Path, _AgentFile]


@frozen
class Source:
    """Folder with definitions.

    Definitions from a project are not trusted, and links among its files are ignored, so that they
    cannot expose files elsewhere. `plugin` is the name of the plugin that it came with.
    """

    folder: Path
    trusted: bool = True
    plugin: str = ""


@frozen
class CatalogPaths:
    """Folders with agents: `user` is the person's home folder, `own` Kore's.

    Definitions in `trusted` folders and their recorded `worktrees` also count as the person's own.
    `plugins` are folders or files with the name of their plugin; their definitions are not trusted.
    """

    user: Path
    own: Path
    trusted: tuple[Path, ...] = ()
    plugins: tuple[tuple[str, Path], ...] = ()
    worktrees: WorktreeRecord | None = None

    def sources(self, root: Path | None) -> list[Source]:
        """Return the folders in ascending precedence.

        The owner's folders come first, then the project's around `root`, the nearest last.
        """
        sources = [*_home_sources(self)]
        folders = {source.folder for source in sources}
        for folder in reversed(project_folders(root, self.user)) if root is not None else ():
            trusted = TrustedOrigins(self.trusted, self.worktrees).is_own(folder)
            own = (Source(folder / program / "agents", trusted) for program in PROGRAMS)
            sources += [source for source in own if source.folder not in folders]
        return sources


@lru_cache(maxsize=8)
def _home_sources(paths: CatalogPaths) -> tuple[Source, ...]:
    """Return the folders that belong to no project; cached because each turn asks."""
    homes = [paths.user / program for program in PROGRAMS[:2]]
    plugins = [Source(folder, trusted=False, plugin=plugin) for plugin, folder in paths.plugins]
    return (*plugins, *(Source(folder / "agents") for folder in (*homes, paths.own)))


class SubagentCatalog:
    """Catalogue of agents; a file is read again only after a change.

    `definitions` are passed in by a library user.
    """

    def __init__(
        self, places: CatalogPaths | None = None, definitions: Sequence[SubagentDefinition] = ()
    ) -> None:
        self._places = places
        self._definitions = tuple(definitions)
        self._cache: dict[Path, _CachedFiles] = {}
        # Files that would replace a trusted agent, with the name in each file.
        self.rejected: dict[str, str] = {}
        self._strange: set[Path] = set()

    def load(self, root: Path | None = None) -> dict[str, SubagentDefinition]:
        """Return the agents by name, the nearest of each; `root` is the conversation's folder.

        The name of a plugin's agent is PLUGIN:NAME if another agent has the same name.
        """
        by_name = {
            subagent_definition.name: subagent_definition for subagent_definition in built_in()
        }
        of_plugins: list[SubagentDefinition] = []
        cache: dict[Path, _CachedFiles] = {}
        for source in self._places.sources(root) if self._places else ():
            before, files = self._cache.get(source.folder, {}), _CachedFiles()
            for path, key in _files(source):
                cached = before.get(path)
                if cached is None or cached.key != key:
                    cached = _read(path, source, key)
                files[path] = cached
                definition = cached.definition
                if definition is None:
                    continue
                level = mark_level(path, opened=cached.mark)
                if self._is_strange(path, level):
                    continue
                # The file may contain untrusted text, even if a file tool asked before writing it.
                definition = (
                    replace(definition, trusted=False)
                    if definition.trusted and level != "none"
                    else definition
                )
                name = entry_name(source.plugin, definition.name)
                if source.plugin or (not definition.trusted and name != definition.name):
                    definition = replace(definition, name=name, plugin=source.plugin)
                if source.plugin:
                    if self._may_stand(definition, {}):
                        of_plugins.append(definition)
                elif self._may_stand(definition, by_name):
                    by_name[definition.name] = definition
            if files:
                cache[source.folder] = files
        # Replaced as a whole, since loads may overlap in threads. Recently used folders remain.
        other_items = [item for item in self._cache.items() if item[0] not in cache]
        self._cache = dict([*other_items, *cache.items()][-_MAX_FOLDERS:])
        by_name.update(
            (subagent_definition.name, subagent_definition)
            for subagent_definition in self._definitions
        )
        entries = distinct_names(of_plugins, by_name, _fold_fully, (*_ALIASES, _MAIN))
        return {
            name: entry if entry.name == name else replace(entry, name=name)
            for name, entry in entries.items()
        }

    def _is_strange(self, path: Path, level: MarkLevel) -> bool:
        """Return whether a command may have written the file after reading untrusted text.

        Such a file is not used at all.
        """
        if level != "unseen":
            self._strange.discard(path)
            return False
        if path not in self._strange:
            self._strange.add(path)
            log.warning("%s", unconfirmed_notice(path))
        return True

    def _may_stand(
        self, subagent_definition: SubagentDefinition, by_name: Mapping[str, SubagentDefinition]
    ) -> bool:
        """Return whether the agent does not replace a trusted agent.

        It must not have the name of a trusted agent, an alias of such a name, or a name that looks
        like it.
        """
        if subagent_definition.trusted:
            return True
        folded = _fold_fully(subagent_definition.name)
        trusted = {_fold(name) for name, definition in by_name.items() if definition.trusted}
        is_taken = not subagent_definition.plugin and (
            folded in trusted or folded in _ALIASES or folded == _MAIN
        )
        if not is_taken and hidden_character(subagent_definition.name) is None:
            return True
        if subagent_definition.source not in self.rejected:
            self.rejected[subagent_definition.source] = subagent_definition.name
            log.warning(
                "%s is ignored: the folder is not trusted, and %r reads like another agent",
                subagent_definition.source,
                subagent_definition.name,
            )
        return False

    def find(self, name: str, root: Path | None = None) -> SubagentDefinition | None:
        """Return the agent of this name, ignoring case, `-` and `_`.

        Other programs' names for built-in agents count unless another agent has the name.
        """
        by_name = self.load(root)
        entry = find_named(by_name, name, _fold)
        return entry or by_name.get(_ALIASES.get(_fold(name), ""))


@cache
def built_in() -> tuple[SubagentDefinition, ...]:
    """Return the agents that ship with Kore."""
    folder = Path(__file__).parent.parent / "prompts" / "agents"
    files = sorted((path for path in folder.iterdir() if path.name.endswith(".md")), key=str)
    return tuple(
        read_definition(file.read_bytes(), file.name.removesuffix(".md"), BUILT_IN)
        for file in files
    )


def _files(source: Source) -> Iterator[tuple[Path, _Key]]:
    """Yield the markdown files of a folder and its subfolders, in order of their names."""
    folder = source.folder
    if not source.trusted:
        project = folder.parent.parent
        if os.path.realpath(folder) != os.path.join(os.path.realpath(project), *folder.parts[-2:]):
            return
    # A plugin can name single files.
    if folder.suffix == ".md" and folder.is_file():
        info = folder.stat()
        yield folder, (info.st_ctime_ns, info.st_size, info.st_ino)
        return
    for n, entry in enumerate(_walk(folder, _DEPTH, links=source.trusted)):
        if n == _MAX_FILES:
            return
        yield entry


def _walk(folder: Path, depth: int, *, links: bool) -> Iterator[tuple[Path, _Key]]:
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in listed:
        if entry.name.startswith("."):
            continue
        try:
            info = entry.stat(follow_symlinks=links)
        except OSError:
            continue
        if S_ISREG(info.st_mode) and entry.name.casefold().endswith(".md"):
            yield Path(entry.path), (info.st_ctime_ns, info.st_size, info.st_ino)
        elif S_ISDIR(info.st_mode) and depth > 1:
            yield from _walk(Path(entry.path), depth - 1, links=links)


def _read(path: Path, source: Source, key: _Key) -> _AgentFile:
    """Return the file with its definition.

    The definition is None for an unreadable file, and for a README about a folder of agents.
    """
    try:
        with open_regular(path, follow_links=source.trusted) as file:
            mark = OpenFileMark.of(file.fileno())
            raw = file.read(frontmatter.SIZE_LIMIT_BYTES + 1)
    except OSError:
        return _AgentFile(key)
    definition = read_definition(raw, path.stem, str(path), trusted=source.trusted)
    is_note = path.stem.casefold() == "readme" and "has no frontmatter" in definition.remarks
    return _AgentFile(key, None if is_note else definition, mark)


def _fold(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")


def _fold_fully(name: str) -> str:
    """Return the same name for all names that read alike."""
    return _fold(normalize_filename(name))
