"""`glob` tool: find files by a name pattern, newest first."""

import heapq
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.files.globs import FilePattern
from agent.security.taint.file_marks import ShownPaths
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan
from agent.tools.files.search_backend import CUT, SearchBackend, ripgrep, run_search
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope, changed_at
from agent.tools.schema import parameters
from agent.tools.traits import FOLDER_ALIASES, ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

MAX_FILES = 100
TIMEOUT_S = 20.0


class Glob:
    """Tool that finds files below a folder; it respects `.gitignore` and follows no links.

    `program` exists for tests only: ripgrep's path, None for the fallback.
    """

    name: ClassVar[str] = "glob"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "search",
        ("paths",),
        mark_for_translation("Searching for {pattern}"),
        aliases=("globfiles", "findfiles"),
        argument_aliases={**FOLDER_ALIASES, "query": "pattern", "glob": "pattern"},
        claude_names=("Glob",),
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(pattern="string", path="string?")

    def __init__(self, settings: ToolSettings, program: str | None = "rg") -> None:
        self._scope = WorkspaceScope(settings)
        self._limit_bytes = settings.output_limit_bytes
        self._program = program

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/glob")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare the folder; the files shown also depend on the role (`call.paths`)."""
        place = self._scope.locate(args.get("path") or ".", call, "read")
        return place.plan(reads=(place.path,))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        folder = self._scope.find(args.get("path") or ".", call, "read")
        rights = self._scope.rights(folder, call)
        if await file_io.in_thread(lambda: file_io.kind(folder, rights)) != "folder":
            raise ToolError(f"{folder} is not a folder; pass the folder to search as path.")
        glob = FilePattern(inside(args["pattern"], folder))
        sight = VisibleFiles(self._scope, call, folder, rights)
        seeker = SearchBackend(folder, sight.root, self._program and ripgrep(sight.root))

        def work() -> tuple[list[Path], int]:
            with closing(seeker.files()) as names:
                return _newest(_find_paths(names, glob, sight), sight)

        paths, count = await run_search(seeker, work, TIMEOUT_S)
        return self._render(paths, count, sight, args["pattern"], seeker)

    def _render(
        self,
        paths: list[Path],
        count: int,
        sight: VisibleFiles,
        pattern: str,
        seeker: SearchBackend,
    ) -> ToolResult:
        lines: list[str] = []
        room = self._limit_bytes
        for line in map(sight.display_path, paths):
            room -= len(line.encode("utf-8", "replace")) + 1
            if room < 0:
                break
            lines.append(line)
        summary = f"{count:,} files" if count != 1 else "1 file"
        if count > len(lines):
            lines.append(f"… ({count - len(lines):,} more; narrow the pattern or the path)")
        if seeker.stopped:
            lines.append(f"… (stopped after {TIMEOUT_S:g} s: there may be more)")
        cut_note = CUT if seeker.is_cut or sight.is_cut else ""
        if not lines:
            return ToolResult(f"No file matches {pattern!r}.\n{cut_note}".rstrip())
        lines += [cut_note] if cut_note else []
        shown_paths = ShownPaths(sight.root)
        for path in paths[: len(lines)]:
            shown_paths.add(path)
        taint = UNTRUSTED if shown_paths.is_marked else NOTHING
        return ToolResult("\n".join(lines), for_user=summary, taint=taint)


def inside(pattern: str, folder: Path) -> str:
    """Return the pattern relative to the folder, even if it contains the folder's full path."""
    return pattern.removeprefix(f"{folder}/") if pattern.startswith("/") else pattern


def _find_paths(names: Iterator[str], glob: FilePattern, sight: VisibleFiles) -> Iterator[Path]:
    for name in names:
        if (path := sight.find(name, glob)) is not None:
            yield path


def _newest(paths: Iterator[Path], sight: VisibleFiles) -> tuple[list[Path], int]:
    """Return the newest paths, sorted by name at equal age, and the total count.

    A folder may be replaced with a link during the search, so each path shown is checked without
    following links.
    """
    count = 0

    def aged() -> Iterator[tuple[int, str]]:
        nonlocal count
        for path in paths:
            count += 1
            yield -changed_at(path), str(path)

    newest = [Path(path) for _, path in heapq.nsmallest(MAX_FILES, aged())]
    there = [path for path in newest if _is_there(path, sight)]
    return there, count - (len(newest) - len(there))


def _is_there(path: Path, sight: VisibleFiles) -> bool:
    try:
        return file_io.kind(path, sight.rights) == "file"
    except ToolError:
        return False
