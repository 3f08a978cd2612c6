"""Catalog of the skills and commands available in a folder: the owner's, the workspace's, a trusted
project's and those of plugins."""

import logging
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from agent.context.project.instructions import project_folders
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.safe_open import open_regular
from agent.security.taint.file_marks import OpenFileMark, mark_level
from agent.security.taint.origin import TrustedOrigins, is_in
from agent.security.taint.worktree_record import WorktreeRecord
from agent.skills.commands import BUILT_IN, CommandFolder, CustomCommands
from agent.skills.definition import FILE, Skill, fold_name, read_skill
from agent.text import frontmatter, ranking
from agent.text.plugin_names import distinct_names, entry_name

log = logging.getLogger(__name__)

PROGRAMS = (".claude", ".agents", ".kore")
COMMAND_PROGRAMS = (".kodax", ".claude")
PROJECT_COMMAND_PROGRAMS = (".kore", ".claude")
_MAX_DEPTH = 6
_MAX_FOLDERS = 2_000
_MAX_ROOTS = 100
_SKIPPED = frozenset({".git", "node_modules"})
# Limits for one skill, for all of them and for those of plugins in a system prompt: about 75, 2,000
# and 600 tokens. The names of further skills are in addition.
_MAX_LINE_CHARS = 300
_MAX_LISTING_CHARS = 8_000
_MAX_PLUGIN_CHARS = 2_500
_MAX_NAMES_CHARS = 1_000
_MAX_MATCHES = 8
_Key = tuple[int, int, int]


@frozen
class SkillFolder:
    """Folder with skills.

    Links count only in one of the person's own folders (`follows_links`). A project's folder must
    be `within` the project. `plugin` is the name of the plugin that it came with.
    """

    path: Path
    follows_links: bool = True
    within: Path | None = None
    plugin: str = ""

    def lies_within(self) -> bool:
        """Return False for a link that leaves its project."""
        return self.within is None or is_in(self.path, (Path(os.path.realpath(self.within)),))


@frozen
class SkillPaths:
    """Locations of skills and commands: the person's home (`user`), Kore's folder (`own`) and the
    assistant's `workspace`.

    Skills of a project count only in `trusted` folders and their recorded `worktrees`. `plugins`
    and `plugin_commands` are folders or files with the name of their plugin.
    """

    user: Path
    own: Path
    workspace: Path
    trusted: tuple[Path, ...] = ()
    plugins: tuple[tuple[str, Path], ...] = ()
    worktrees: WorktreeRecord | None = None
    plugin_commands: tuple[tuple[str, Path], ...] = ()

    def folders(self, root: Path | None) -> list[SkillFolder]:
        """Return the folders in rising precedence: plugins, the person, the workspace, the
        project."""
        own = [self.user / program / "skills" for program in PROGRAMS[:2]]
        own += [self.own / "skills", *self._of(self.workspace), self.workspace / "skills"]
        folders = [
            SkillFolder(folder, follows_links=False, plugin=plugin)
            for plugin, folder in self.plugins
        ]
        folders += map(SkillFolder, own)
        origin = TrustedOrigins(self.trusted, self.worktrees)
        for project in reversed(project_folders(root, self.user)) if root is not None else ():
            if origin.is_own(project) and project != self.workspace:
                folders += [
                    SkillFolder(folder, follows_links=False, within=project)
                    for folder in self._of(project)
                    if folder not in own
                ]
        return list(dict.fromkeys(folders))

    def command_folders(self, root: Path) -> list[CommandFolder]:
        """Return the folders of commands, also of a project that is not trusted."""
        own = [self.own, *(self.user / program for program in COMMAND_PROGRAMS)]
        # The workspace is not trusted here, because a model may have written its files.
        is_trusted = TrustedOrigins(self.trusted, self.worktrees).is_own(root)
        return [
            *(CommandFolder(folder / "commands", False, True) for folder in own),
            *(
                CommandFolder(root / program / "commands", True, is_trusted)
                for program in PROJECT_COMMAND_PROGRAMS
            ),
            *(
                CommandFolder(folder, False, False, plugin)
                for plugin, folder in self.plugin_commands
            ),
        ]

    def _of(self, folder: Path) -> list[Path]:
        return [folder / program / "skills" for program in PROGRAMS]


@frozen
class _SkillFile:
    """Parsed file with the key that detects changes, and its taint mark at the time of reading."""

    key: _Key
    skill: Skill | None = None
    mark: OpenFileMark | None = None


class SkillCatalog:
    """Catalog of skills; changed files are read again. Thread-safe."""

    def __init__(self, paths: SkillPaths) -> None:
        self._paths = paths
        self._cache: dict[Path, _SkillFile] = {}
        self._folders: dict[Path | None, list[tuple[str, SkillFolder]]] = {}
        self._untrusted: set[Path] = set()

    def load(self, root: Path | None = None) -> dict[str, Skill]:
        """Return skills by name; `root` is the folder of the conversation. Touches the disk.

        The name of a plugin's skill is PLUGIN:NAME if another skill or a built-in command has the
        same name. Names are equal as for `find_skill`.
        """
        of_plugins: list[Skill] = []
        own: dict[str, Skill] = {}
        cache: dict[Path, _SkillFile] = {}
        # Each turn calls this, mostly for missing folders, with one system call per folder.
        for name, folder in self._folders_of(root):
            if not os.access(name, os.R_OK) or not folder.lies_within():
                continue
            for path, key in skill_files(folder):
                cached = self._cache.get(path)
                if cached is None or cached.key != key:
                    cached = _read(path, key)
                cache[path] = cached
                skill = cached.skill
                if skill is None or not self._is_own(path, cached.mark):
                    continue
                if folder.plugin:
                    own_name = entry_name(folder.plugin, skill.name)
                    of_plugins.append(replace(skill, name=own_name, plugin=folder.plugin))
                    continue
                folded = fold_name(skill.name)
                own.pop(folded, None)
                own[folded] = skill
        # The cache is replaced, not changed, because loads may overlap in threads.
        self._cache = {**self._cache, **cache} if len(self._cache) < _MAX_FOLDERS else cache
        by_name = {skill.name: skill for skill in own.values()}
        return distinct_names(of_plugins, by_name, fold_name, BUILT_IN)

    def commands(self, root: Path) -> CustomCommands:
        """Return the commands of a folder, including its skills; they touch the disk when used."""
        return CustomCommands(self._paths.command_folders(root), lambda: self.load(root))

    def _folders_of(self, root: Path | None) -> list[tuple[str, SkillFolder]]:
        """Return the cached skill folders of a root."""
        folders = self._folders.get(root)
        if folders is None:
            folders = [(str(folder.path), folder) for folder in self._paths.folders(root)]
            self._folders = {**dict([*self._folders.items()][-_MAX_ROOTS:]), root: folders}
        return folders

    def listing(self, root: Path) -> str:
        """Return the list of skills for the system prompt; empty without skills.

        The nearest come first, and those of plugins last. Beyond the limits, skills are listed by
        name or counted; the tool for skills finds them.
        """
        skills = {name: skill for name, skill in self.load(root).items() if skill.is_for_model}
        if not skills:
            return ""
        lines: list[str] = []
        others: list[str] = []
        room = _MAX_LISTING_CHARS
        for is_own, most in ((True, _MAX_LISTING_CHARS), (False, _MAX_PLUGIN_CHARS)):
            room = min(room, most)
            for name, skill in _nearest_first(skills):
                if skill.is_own is not is_own:
                    continue
                line = listing_line(name, skill)
                if (room := room - len(line)) < 0:
                    others.append(name)
                else:
                    lines.append(line)
        if others:
            lines.append(render_prompt("skills_unlisted", names=_cut_names(others)))
        return render_prompt("skills", skills="\n".join(lines))

    def search(self, query: str, root: Path) -> dict[str, Skill]:
        """Return the skills that match a query best; `root` is as for `load`."""
        skills = {name: skill for name, skill in self.load(root).items() if skill.is_for_model}
        texts = [
            f"{skill.title.replace('-', ' ')} {skill.description}" for skill in skills.values()
        ]
        scores = ranking.scores(ranking.query_terms(query.replace("-", " ")), texts)
        best = sorted(zip(scores, skills, strict=True), key=lambda pair: -pair[0])
        return {name: skills[name] for score, name in best[:_MAX_MATCHES] if score > 0}

    def _is_own(self, path: Path, mark: OpenFileMark | None) -> bool:
        """Return whether neither the file nor a link to it is marked as untrusted."""
        if mark_level(path, opened=mark) == "none":
            self._untrusted.discard(path)
            return True
        if path not in self._untrusted:
            self._untrusted.add(path)
            log.warning("%s is not used: it may contain untrusted text", path)
        return False


def listing_line(name: str, skill: Skill) -> str:
    files = f" (only for {', '.join(skill.paths)})" if skill.paths else ""
    line = f"- {name}{files}: {skill.description}"
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[: _MAX_LINE_CHARS - 1]}…"


def _nearest_first(skills: Mapping[str, Skill]) -> list[tuple[str, Skill]]:
    """Return skills in rising precedence as groups of a folder, the nearest folder first."""
    groups = [
        list(group) for _, group in groupby(skills.items(), lambda item: item[1].folder.parent)
    ]
    return [item for group in reversed(groups) for item in group]


def _cut_names(names: Sequence[str]) -> str:
    """Return the names up to the limit, and the number of further ones."""
    text = ", ".join(names)
    if len(text) <= _MAX_NAMES_CHARS:
        return text
    listed = text[:_MAX_NAMES_CHARS].rpartition(", ")[0]
    return f"{listed} and {len(names) - listed.count(', ') - 1} more"


def skill_names(folder: Path, plugin: str) -> list[str]:
    """Return the names of the skills below a folder of a plugin."""
    files = skill_files(SkillFolder(folder, follows_links=False))
    read = (_read(path, key).skill for path, key in files)
    return [entry_name(plugin, skill.name) for skill in read if skill is not None]


def linked_skills(folder: Path) -> list[Path]:
    """Return the targets of links to skills in a folder."""
    try:
        links = [link for link in folder.iterdir() if link.is_symlink()]
    except OSError:
        return []
    return [link.resolve() for link in links if (link / FILE).is_file()]


def skill_files(folder: SkillFolder) -> Iterator[tuple[Path, _Key]]:
    """Yield the SKILL.md files below a folder, breadth first, so that a large folder does not hide
    others."""
    top = Path(os.path.realpath(folder.path))
    pending = deque([(folder.path, _MAX_DEPTH)])
    linked: set[Path] = set()
    for _ in range(_MAX_FOLDERS):
        if not pending:
            return
        place, depth = pending.popleft()
        try:
            with os.scandir(place) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in listed:
            if entry.is_symlink():
                real = Path(os.path.realpath(entry.path))
                is_inside = real.is_relative_to(top)
                if not (is_inside or folder.follows_links) or real in linked:
                    continue
                linked.add(real)
            try:
                info = entry.stat()
            except OSError:
                continue
            if entry.name == FILE and S_ISREG(info.st_mode):
                yield Path(entry.path), (info.st_ctime_ns, info.st_size, info.st_ino)
            elif S_ISDIR(info.st_mode) and depth > 0 and entry.name not in _SKIPPED:
                pending.append((Path(entry.path), depth - 1))
    log.warning(
        "%s: more than %s folders; not all were searched for skills", folder.path, _MAX_FOLDERS
    )


def _read(path: Path, key: _Key) -> _SkillFile:
    try:
        with open_regular(path) as file:
            mark = OpenFileMark.of(file.fileno())
            raw = file.read(frontmatter.SIZE_LIMIT_BYTES + 1)
    except OSError:
        return _SkillFile(key)
    skill = read_skill(raw, path.parent)
    if skill is None:
        log.warning("%s is not a skill: it has no description", path)
    return _SkillFile(key, skill, mark)
