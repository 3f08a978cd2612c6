"""Catalog of the skills available in a folder: the owner's, the workspace's and a trusted
project's."""

import logging
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from agent.context.project.instructions import project_folders
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.safe_open import open_regular
from agent.security.taint.file_marks import OpenFileMark, mark_level
from agent.security.taint.origin import TrustedOrigins, is_in
from agent.security.taint.worktree_record import WorktreeRecord
from agent.skills.definition import Skill, read_skill
from agent.text import frontmatter

log = logging.getLogger(__name__)

PROGRAMS = (".claude", ".agents", ".kore")
FILE = "SKILL.md"
_MAX_DEPTH = 6
_MAX_FOLDERS = 2_000
_MAX_FILES = 40
_MAX_ROOTS = 100
_SKIPPED = frozenset({".git", "node_modules"})
# Limits for one skill and for all of them in a system prompt: about 75 and 2,000 tokens.
_MAX_LINE_CHARS = 300
_MAX_LISTING_CHARS = 8_000
_Key = tuple[int, int, int]


@frozen
class SkillFolder:
    """Folder with skills.

    Links count only in one of the person's own folders (`follows_links`). A project's folder must
    be `within` the project.
    """

    path: Path
    follows_links: bool = True
    within: Path | None = None

    def lies_within(self) -> bool:
        """Return False for a link that leaves its project."""
        return self.within is None or is_in(self.path, (Path(os.path.realpath(self.within)),))


@frozen
class SkillPaths:
    """Locations of skills: the person's home (`user`), Kore's folder (`own`) and the assistant's
    `workspace`.

    Skills of a project count only in `trusted` folders and their recorded `worktrees`. `further`
    are the folders of plugins.
    """

    user: Path
    own: Path
    workspace: Path
    trusted: tuple[Path, ...] = ()
    further: tuple[Path, ...] = ()
    worktrees: WorktreeRecord | None = None

    def folders(self, root: Path | None) -> list[SkillFolder]:
        """Return the folders in rising precedence: plugins, the person, the workspace, the
        project."""
        own = [self.user / program / "skills" for program in PROGRAMS[:2]]
        own += [self.own / "skills", *self._of(self.workspace), self.workspace / "skills"]
        folders = [SkillFolder(folder, follows_links=False) for folder in self.further]
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
        """Return skills by name; `root` is the folder of the conversation. Touches the disk."""
        by_name: dict[str, Skill] = {}
        cache: dict[Path, _SkillFile] = {}
        # Each turn calls this, mostly for missing folders, with one system call per folder.
        for name, folder in self._folders_of(root):
            if not os.access(name, os.R_OK) or not folder.lies_within():
                continue
            for path, key in _files(folder):
                cached = self._cache.get(path)
                if cached is None or cached.key != key:
                    cached = _read(path, key)
                cache[path] = cached
                skill = cached.skill
                if skill is not None and folder.path in self._paths.further:
                    skill = replace(skill, is_own=False)
                if skill is not None and self._is_own(path, cached.mark):
                    by_name.pop(skill.name, None)
                    by_name[skill.name] = skill
        # The cache is replaced, not changed, because loads may overlap in threads.
        self._cache = {**self._cache, **cache} if len(self._cache) < _MAX_FOLDERS else cache
        return by_name

    def _folders_of(self, root: Path | None) -> list[tuple[str, SkillFolder]]:
        """Return the cached skill folders of a root."""
        folders = self._folders.get(root)
        if folders is None:
            folders = [(str(folder.path), folder) for folder in self._paths.folders(root)]
            self._folders = {**dict([*self._folders.items()][-_MAX_ROOTS:]), root: folders}
        return folders

    def listing(self, root: Path) -> str:
        """Return the list of skills for the system prompt, one per line; empty without skills."""
        skills = [skill for skill in self.load(root).values() if skill.is_for_model]
        if not skills:
            return ""
        lines: list[str] = []
        room = _MAX_LISTING_CHARS
        for skill in skills:
            files = f" (only for {', '.join(skill.paths)})" if skill.paths else ""
            line = f"- {skill.name}{files}: {skill.description}"
            line = line if len(line) <= _MAX_LINE_CHARS else f"{line[: _MAX_LINE_CHARS - 1]}…"
            if (room := room - len(line)) < 0:
                lines.append(f"- and {len(skills) - len(lines)} more")
                break
            lines.append(line)
        return render_prompt("skills", skills="\n".join(lines))

    def _is_own(self, path: Path, mark: OpenFileMark | None) -> bool:
        """Return whether neither the file nor a link to it is marked as untrusted."""
        if mark_level(path, opened=mark) == "none":
            self._untrusted.discard(path)
            return True
        if path not in self._untrusted:
            self._untrusted.add(path)
            log.warning("%s is not used: it may contain untrusted text", path)
        return False


def files_of(skill: Skill) -> list[str]:
    """Return the other files of a skill as paths relative to its folder."""
    names: list[str] = []
    for folder, folders, files in os.walk(skill.folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            if name != FILE and not name.startswith(".") and not path.is_symlink():
                names.append(str(path.relative_to(skill.folder)))
            if len(names) >= _MAX_FILES:
                return names
    return names


def linked_skills(folder: Path) -> list[Path]:
    """Return the targets of links to skills in a folder."""
    try:
        links = [link for link in folder.iterdir() if link.is_symlink()]
    except OSError:
        return []
    return [link.resolve() for link in links if (link / FILE).is_file()]


def _files(folder: SkillFolder) -> Iterator[tuple[Path, _Key]]:
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
