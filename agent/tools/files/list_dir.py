"""`list_dir` tool: list a folder with file sizes."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.files.reading_rights import (
    ReadingRights,
    open_listed,
    open_listed_subfolder,
)
from agent.security.taint.file_marks import FolderTimes, is_name_marked
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.base import CallContext, EffectPlan
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.schema import parameters
from agent.tools.traits import FOLDER_ALIASES, PATH_ALIASES, ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

MAX_ENTRIES_PER_FOLDER = 50
MAX_ENTRIES = 1_000
MAX_DEPTH = 5


Hidden = Callable[[Path, "os.DirEntry[str]"], bool]


class ListDir:
    """Tool that lists a tree of `depth` levels (1 to 5): folders first, then files with sizes."""

    name: ClassVar[str] = "list_dir"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "read",
        ("paths",),
        mark_for_translation("Looking through {path}"),
        aliases=("ls", "listfiles", "listdirectory"),
        argument_aliases={**PATH_ALIASES, **FOLDER_ALIASES},
        claude_names=("LS",),
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(path="string?", depth="integer?")

    def __init__(self, settings: ToolSettings) -> None:
        self._scope = WorkspaceScope(settings)
        self._limit_bytes = settings.output_limit_bytes

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/list_dir")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare the folder."""
        place = self._scope.locate(args.get("path", "."), call, "read")
        return place.plan(reads=(place.path,))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        path = self._scope.find(args.get("path", "."), call, "read")
        depth = min(max(1, int(args.get("depth", 1))), MAX_DEPTH)
        return await file_io.in_thread(lambda: self._listing(path, depth, call))

    def _listing(self, path: Path, depth: int, call: CallContext) -> ToolResult:
        rights = self._scope.rights(path, call)
        if (kind := file_io.kind(path, rights)) != "folder":
            what = "is a file; use read_file" if kind else "does not exist"
            raise ToolError(f"{path} {what}.")
        lines: list[str] = []
        room = self._limit_bytes
        walk = _ListWalk(self._scope.hidden_test(call), rights)
        for line in walk.lines(path, depth):
            room -= len(line.encode("utf-8", "replace")) + 1
            if len(lines) >= MAX_ENTRIES or room < 0:
                lines.append("… (cut; list a subfolder)")
                break
            lines.append(line)
        text = "\n".join(lines) if lines else f"{path} is empty."
        return ToolResult(text, taint=UNTRUSTED if walk.is_marked else NOTHING)


class _ListWalk:
    """Walk that uses descriptors, so that it never enters a folder replaced with a link.

    `is_marked`: a name may be a stranger's text.
    """

    def __init__(self, is_hidden: Hidden, rights: ReadingRights | None) -> None:
        self.is_marked = False
        self._times: FolderTimes = {}
        self._is_hidden = is_hidden
        self._rights = rights

    def lines(self, folder: Path, depth: int) -> Iterator[str]:
        with file_io.explain_errors(folder), open_listed(folder, self._rights) as fd:
            yield from self._entries(folder, fd, depth, "")

    def _entries(self, folder: Path, fd: int, depth: int, indent: str) -> Iterator[str]:
        with os.scandir(fd) as scan:
            entries = [entry for entry in scan if not self._is_hidden(folder, entry)]
        entries.sort(key=lambda e: (not _is_folder(e), e.name.casefold(), e.name))
        for entry in entries[:MAX_ENTRIES_PER_FOLDER]:
            name = escape_line(entry.name)
            self.is_marked |= is_name_marked(folder / entry.name, self._times)
            if not _is_folder(entry):
                yield f"{indent}{name}{_size(entry, fd)}"
                continue
            yield f"{indent}{name}/"
            if depth > 1:
                yield from self._inner(folder / entry.name, fd, depth - 1, indent + "  ")
        if (more := len(entries) - MAX_ENTRIES_PER_FOLDER) > 0:
            yield f"{indent}... ({more} more)"

    def _inner(self, folder: Path, above: int, depth: int, indent: str) -> Iterator[str]:
        try:
            fd = open_listed_subfolder(folder.name, above, self._rights)
        except OSError as exc:
            yield f"{indent}… (cannot be listed: {(exc.strerror or 'gone').lower()})"
            return
        try:
            yield from self._entries(folder, fd, depth, indent)
        finally:
            os.close(fd)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    return entry.is_dir(follow_symlinks=False)


def _size(entry: "os.DirEntry[str]", folder: int) -> str:
    try:
        if entry.is_symlink():
            return " -> " + escape_line(os.readlink(entry.name, dir_fd=folder))
        size = float(entry.stat(follow_symlinks=False).st_size)
    except OSError:
        # Removed or replaced between the listing of its folder and this call.
        return " (gone)"
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f" ({size:.0f} {unit})" if unit == "B" else f" ({size:.1f} {unit})"
        size /= 1000
    return f" ({size:.1f} TB)"
