"""Project context for the model: the working folder and the files that a person points at.

It is part of the user message that opens a turn; later messages contain only changes.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from pathlib import Path

from agent.context.project.directory_tree import (
    FolderTree,
    TreeLimits,
    describe_size,
    tree,
    tree_changes,
)
from agent.context.project.pointed_file import PointedFile, read_pointed_file
from agent.context.project.repository_state import describe_repository
from agent.prompts import render_prompt
from agent.providers.token_estimate import estimate_text
from agent.records import frozen
from agent.security.files.folder_identity import real_start_folder
from agent.security.sandbox.base import Sandbox
from agent.security.taint.origin import TrustedOrigins
from agent.types import Taint


@frozen
class ContextUpdate:
    """Update of the project context for the model.

    `taint` is the taint of the text and `evicted` the number of files that did not fit. `parts` is
    the text by folder and file: parts that the conversation already contains are omitted.
    """

    text: str
    taint: frozenset[Taint] = frozenset({"private"})
    evicted: int = 0
    parts: tuple[str, ...] = ()


# Share of the window for all files that a person points at.
FILE_SHARE = 0.25

# Most informative files of a folder, in order; their beginnings use the room left by focused files.
OVERVIEW_FILES = (
    *("README.md", "README.rst", "README.txt", "README"),
    *("pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "build.gradle"),
    *("Gemfile", "composer.json", "CMakeLists.txt", "Makefile", "setup.cfg", "tsconfig.json"),
)

MAX_OVERVIEW_TOKENS = 2_000

_OVERVIEW_FILE_TOKENS = 800
# A longer list of changes is less useful than the tree.
_MAX_CHANGES = 30


@dataclass(slots=True)
class ProjectContext:
    """Project context of a session.

    `root` is the folder, or None without a project; `start_folder` is the folder inside it where
    relative paths start, if it is another one. `focus` are files and folders, most important
    first, whose text may use `limit` tokens in total. `clean` removes secrets, `remark` is for the
    person, `origin` identifies the owner's places, and `sandbox` returns the sandbox for git.
    """

    root: Path | None
    focus: Sequence[Path] = ()
    shape: TreeLimits = field(default_factory=TreeLimits)
    limit: int = 20_000
    clean: Callable[[str], str] = str
    remark: str = ""
    origin: TrustedOrigins = field(default_factory=TrustedOrigins)
    sandbox: Callable[[], Sandbox | None] = lambda: None
    start_folder: Path | None = None
    _reported: dict[str, str] = field(default_factory=dict)
    _listings: dict[Path, FolderTree] = field(default_factory=dict)
    _files: dict[Path, tuple[tuple[int, int], PointedFile]] = field(default_factory=dict)

    def news(self, mentioned: Sequence[Path] = ()) -> ContextUpdate | None:
        """Return new and changed context since the last report, or None.

        `mentioned` are files and folders that the person points at only once. Pictures are left to
        `new_pictures`. If a file does not fit, the text explains how to read it.
        """
        texts: list[str] = []
        taint: set[Taint] = {"private"}
        reported_paths: list[Path] = []
        pointed = dict.fromkeys([*mentioned, *self.focus])
        # `Path.is_dir` raises an error if a parent folder is not accessible.
        folders = [path for path in pointed if os.path.isdir(path)]
        for folder in dict.fromkeys([*self._own_folders(), *folders]):
            listing = tree(folder, self.shape)
            if self._is_new("" if folder == self.root else str(folder), listing.text):
                text, is_marked = self._describe_folder(folder, listing)
                texts.append(text)
                if is_marked or not self.origin.is_own(folder):
                    taint.add("untrusted")
        room, evicted = float(self.limit), 0
        for path in (path for path in pointed if path not in folders):
            text, tokens = self._describe_file(path, room)
            evicted += tokens > room
            room -= tokens if tokens <= room else 0
            if text and self._is_new(str(path), text):
                texts.append(text)
                reported_paths.append(path)
        for path, text in self._beginnings(min(int(room), MAX_OVERVIEW_TOKENS)):
            if self._is_new(str(path), text):
                texts.append(render_prompt("project_beginning", path=path, text=text))
                reported_paths.append(path)
        if not texts:
            return None
        if any(map(self.origin.is_untrusted, reported_paths)):
            taint.add("untrusted")
        parts = tuple(map(self.clean, texts))
        return ContextUpdate("\n\n".join(parts), frozenset(taint), evicted, parts)

    def _describe_file(self, path: Path, room: float) -> tuple[str, float]:
        """Return the text about a file ('' for a picture) and the tokens of its content.

        The tokens of a file that is too long to be read are infinite.
        """
        file = self._read(path)
        if file.kind != "text":
            return ("" if file.kind == "picture" else file.note), 0
        tokens = inf if file.is_cut else estimate_text(file.text)
        if tokens > room:
            size = describe_size(file.size_bytes)
            return render_prompt("project_file_large", path=path, size=size), tokens
        return render_prompt("project_file", path=path, text=file.text), tokens

    def new_pictures(self) -> list[Path]:
        """Return pictures in `focus` that are new or changed since they were last shown."""
        return [
            path
            for path in self.focus
            if not os.path.isdir(path)
            and self._read(path).kind == "picture"
            and self._is_new(str(path), repr(self._files[path][0]))
        ]

    def _describe_folder(self, folder: Path, listing: FolderTree) -> tuple[str, bool]:
        """Return the whole tree, or its changes if they are shorter.

        True if untrusted text may have chosen a branch, the subject of a commit or a changed file.
        """
        before = self._listings.get(folder)
        self._listings[folder] = listing
        text = render_prompt("project_tree", root=folder, tree=listing.text or "(empty)")
        lines = tree_changes(before, listing) if before is not None else None
        if lines and len(lines) <= _MAX_CHANGES:
            changes = render_prompt("project_tree_changes", root=folder, changes="\n".join(lines))
            if len(changes) < len(text):
                return changes, False
        note = describe_repository(folder, self.sandbox) if folder == self.root else None
        return (text, False) if note is None else (f"{text}\n{note.text}", note.is_marked)

    def _own_folders(self) -> Sequence[Path]:
        """Return the root of the project, and the folder where relative paths start."""
        if self.root is None:
            return []
        start_folder = real_start_folder(self.root, self.start_folder)
        return [self.root] if start_folder is None else [self.root, start_folder]

    def _beginnings(self, room: int) -> Iterator[tuple[Path, str]]:
        """Yield the beginnings of README and configuration files within `room` tokens.

        Files of the folder where relative paths start come first.
        """
        focus = set(self.focus)
        folders = dict.fromkeys(reversed(self._own_folders()))
        for path in (folder / name for folder in folders for name in OVERVIEW_FILES):
            if path in focus or path.is_symlink() or not path.is_file():
                continue
            text = _beginning(self._read(path).text, min(room, _OVERVIEW_FILE_TOKENS))
            room -= estimate_text(text)
            if room < 0:
                return
            if text:
                yield path, text

    def forget(self) -> None:
        """Report everything again: the model no longer has the earlier reports."""
        self._reported.clear()
        self._listings.clear()

    def _is_new(self, name: str, text: str) -> bool:
        fingerprint = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if self._reported.get(name) == fingerprint:
            return False
        self._reported[name] = fingerprint
        return True

    def _read(self, path: Path) -> PointedFile:
        """Return the file; read it again only if it has changed."""
        try:
            info = path.stat()
            mark = (info.st_mtime_ns, info.st_size)
        except OSError:
            return read_pointed_file(path)
        cached = self._files.get(path)
        if cached is None or cached[0] != mark:
            cached = self._files[path] = (mark, read_pointed_file(path))
        return cached[1]


def _beginning(text: str, limit: int) -> str:
    """Return whole lines from the beginning in about `limit` tokens; '…' marks omitted lines."""
    if estimate_text(text) <= limit:
        return text.strip()
    lines: list[str] = []
    remaining = limit
    for line in text.splitlines():
        remaining -= estimate_text(line) + 1
        if remaining < 0:
            break
        lines.append(line)
    return "\n".join([*lines, "…"]).strip() if lines else ""
