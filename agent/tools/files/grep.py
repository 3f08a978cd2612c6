"""`grep` tool: find lines by regular expression, in a file or below a folder."""

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.records import frozen
from agent.security.files import file_io
from agent.security.files.globs import FilePattern
from agent.security.taint.file_marks import ShownPaths
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.settings import ToolSettings
from agent.text.text_document import MAX_BYTES
from agent.text.visible import escape_line
from agent.tools.base import CallContext, EffectPlan
from agent.tools.files.glob import inside
from agent.tools.files.search_backend import (
    CUT,
    MatchLine,
    Query,
    SearchBackend,
    ripgrep,
    run_search,
)
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope, lines, size_of
from agent.tools.schema import parameters
from agent.tools.traits import FOLDER_ALIASES, PATH_ALIASES, ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

DEFAULT_LINES = 100
MAX_LINES = 1_000
MAX_CONTEXT_LINES = 20
MAX_LINE_CHARS = 400
PATTERN_LIMIT_CHARS = 10_000
TIMEOUT_S = 20.0
# In larger trees the result does not list the files that were too large.
MAX_LISTED_FILES = 50_000
MAX_SKIPPED_SHOWN = 5
# A match never spans lines.
_LINE_END = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n")
_OTHER_THAN = re.compile(r"\[\^(?:[^\]\\]|\\.)*\]")


@frozen
class _GrepOptions:
    query: Query
    context: int
    glob: FilePattern | None


@dataclass(slots=True)
class _Matches:
    """Lines to show, the numbers of matches and files, and the files that could not be searched.

    `long_lines` are the files with a match in a line that is too long to be shown.
    """

    lines: list[str] = field(default_factory=list)
    matches: int = 0
    files: int = 0
    more: bool = False
    is_marked: bool = False
    skipped: list[str] = field(default_factory=list)
    long_lines: list[str] = field(default_factory=list)


class Grep:
    """Tool that finds matching lines with their numbers, sorted by path.

    `.gitignore` applies, links are not followed and binary files are skipped. `program` and
    `timeout_s` exist for tests only: ripgrep's path, None for the fallback.
    """

    name: ClassVar[str] = "grep"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "search",
        ("paths",),
        mark_for_translation("Searching for {pattern}"),
        aliases=("search", "ripgrep", "rg", "searchfiles"),
        argument_aliases={
            **PATH_ALIASES,
            **FOLDER_ALIASES,
            "query": "pattern",
            "regex": "pattern",
            "include": "glob",
            "file_pattern": "glob",
            "-i": "ignore_case",
            "-C": "context",
            "-A": "context",
            "-B": "context",
            "max_results": "head_limit",
        },
        ignored_arguments=frozenset({"output_mode", "-n", "multiline"}),
        claude_names=("Grep",),
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(
        pattern="string",
        path="string?",
        glob="string?",
        context="integer?",
        ignore_case="boolean?",
        head_limit="integer?",
    )

    def __init__(
        self, settings: ToolSettings, program: str | None = "rg", timeout_s: float = TIMEOUT_S
    ) -> None:
        self._scope = WorkspaceScope(settings)
        self._limit_bytes = settings.output_limit_bytes
        self._program = program
        self._timeout_s = timeout_s

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/grep")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare the file or folder; the files shown also depend on the role (`call.paths`)."""
        place = self._scope.locate(args.get("path") or ".", call, "read")
        return place.plan(reads=(place.path,))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        path = self._scope.find(args.get("path") or ".", call, "read")
        rights = self._scope.rights(path, call)
        kind = await file_io.in_thread(lambda: file_io.kind(path, rights))
        if kind is None:
            raise ToolError(f"{path} does not exist.")
        folder = path if kind == "folder" else path.parent
        options = _parse_options(args, folder, "" if kind == "folder" else path.name)
        sight = VisibleFiles(self._scope, call, folder, rights)
        seeker = SearchBackend(folder, sight.root, self._program and ripgrep(sight.root))
        matches, note = await self._search(seeker, options, sight)
        long_lines = _long_lines_text(matches.long_lines)
        note = "\n".join(filter(None, [long_lines, _skipped_text(matches.skipped), note]))
        if not matches.matches:
            what = "No line that can be shown" if matches.long_lines else "Nothing"
            return ToolResult(f"{what} matches {args['pattern'][:200]!r}.\n{note}".rstrip())
        if matches.more:
            matches.lines.append("… (there are more; narrow the pattern, path or glob)")
        files = "1 file" if matches.files == 1 else f"{matches.files:,} files"
        return ToolResult(
            "\n".join([*matches.lines, note]).rstrip("\n"),
            for_user=f"{matches.matches:,} lines in {files}",
            taint=UNTRUSTED if matches.is_marked else NOTHING,
        )

    async def _search(
        self, seeker: SearchBackend, options: _GrepOptions, sight: VisibleFiles
    ) -> tuple[_Matches, str]:
        """Return the matches, and a line about files that were not searched."""

        is_cut = False

        def work() -> _Matches:
            nonlocal is_cut
            with closing(seeker.lines(options.query)) as candidates:
                matches = self._collect(candidates, options, sight)
            is_cut = seeker.is_cut
            matches.long_lines += sorted(_with_long_lines(seeker, options, sight))
            if not matches.more and not seeker.stopped:
                matches.skipped += sorted(_too_large(seeker, options, sight))
            return matches

        matches = await run_search(seeker, work, self._timeout_s)
        if seeker.stopped:
            return matches, f"… (stopped after {self._timeout_s:g} s)"
        return matches, CUT if is_cut or sight.is_cut else ""

    def _collect(
        self, candidates: Iterator[MatchLine], options: _GrepOptions, sight: VisibleFiles
    ) -> _Matches:
        """Return the candidates that the files themselves confirm, until enough are found."""
        matches, room, most = _Matches(), self._limit_bytes, options.query.most
        shown_paths = ShownPaths(sight.root)
        for name, group in groupby(candidates, lambda candidate: candidate.path):
            is_named = bool(options.query.name)
            path = sight.find_named(name) if is_named else sight.find(name, options.glob)
            text = lines(path, sight.rights) if path is not None else None
            if path is None or text is None:
                continue
            hits = [n for n, candidate_text in ((line.number, line.text) for line in group)
                    if 0 < n <= len(text) and text[n - 1] == candidate_text]  # fmt: skip
            if not hits:
                continue
            if matches.matches + len(hits) > most:
                hits, matches.more = hits[: most - matches.matches], True
            if not hits:
                return matches
            matches.files += 1
            matches.matches += len(hits)
            shown_paths.add(path)
            matches.is_marked = shown_paths.is_marked
            block = [
                f"{escape_line(sight.display_path(path))}",
                *_excerpt(text, hits, options.context),
            ]
            for line in [*([""] if matches.lines else []), *block]:
                room -= len(line.encode("utf-8", "replace")) + 1
                if room < 0:
                    matches.more = True
                    return matches
                matches.lines.append(line)
            if matches.more:
                return matches
        return matches


def _with_long_lines(
    seeker: SearchBackend, options: _GrepOptions, sight: VisibleFiles
) -> Iterator[str]:
    """Yield the files with a match in a line that is too long to be shown."""
    is_named = bool(options.query.name)
    for name in seeker.long_lines:
        path = sight.find_named(name) if is_named else sight.find(name, options.glob)
        if path is not None and lines(path, sight.rights) is not None:
            yield sight.display_path(path)


def _too_large(seeker: SearchBackend, options: _GrepOptions, sight: VisibleFiles) -> Iterator[str]:
    """Yield the files that are too large to search, with their sizes."""
    if name := options.query.name:
        path = sight.find_named(name)
        if path is not None and lines(path, sight.rights) is None:
            size = size_of(path)
            reason = f"{size / 1e6:.0f} MB" if size > MAX_BYTES else "no text"
            yield f"{sight.display_path(path)} ({reason})"
        return
    with closing(seeker.files()) as names:
        for name in islice(names, MAX_LISTED_FILES):
            size = size_of(sight.folder / name)
            # The size test comes first, because the visibility test takes longer.
            if size > MAX_BYTES and (path := sight.find(name, options.glob)) is not None:
                yield f"{sight.display_path(path)} ({size / 1e6:.0f} MB)"


def _skipped_text(names: list[str]) -> str:
    """Return one line that lists the files not searched; empty if there are none."""
    return f"… (not searched: {_listed(names)})" if names else ""


def _long_lines_text(names: list[str]) -> str:
    """Return one line that lists the files with a match that is not shown; empty without any."""
    if not names:
        return ""
    return (
        f"… (it matches in a line that is too long to show: {_listed(names)}; with exec, "
        "grep -oE '.{0,80}PATTERN.{0,80}' shows the matches)"
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_SKIPPED_SHOWN:,} more" if len(names) > MAX_SKIPPED_SHOWN else ""
    return f"{', '.join(map(escape_line, names[:MAX_SKIPPED_SHOWN]))}{more}"


def _parse_options(args: Mapping[str, Any], folder: Path, name: str) -> _GrepOptions:
    pattern: str = args["pattern"]
    if not 0 < len(pattern) <= PATTERN_LIMIT_CHARS:
        raise ToolError(f"A pattern has 1 to {PATTERN_LIMIT_CHARS:,} characters.")
    if _LINE_END.search(_OTHER_THAN.sub("", pattern)):
        raise ToolError("A pattern matches within one line; remove the line breaks.")
    most = min(max(1, int(args.get("head_limit", DEFAULT_LINES))), MAX_LINES)
    context = min(max(0, int(args.get("context", 0))), MAX_CONTEXT_LINES)
    glob = args.get("glob")
    # One match beyond the limit shows that there are more.
    query = Query(pattern, args.get("ignore_case") is True, name, most)
    return _GrepOptions(query, context, FilePattern(inside(glob, folder)) if glob else None)


def _excerpt(text: list[str], hits: list[int], context: int) -> Iterator[str]:
    """Yield matching lines as `12:text`, context lines as `13-text` and gaps as `--`."""
    hit_lines = set(hits)
    last = 0
    for hit in hits:
        for number in range(max(last + 1, hit - context), min(len(text), hit + context) + 1):
            if context and last and number > last + 1:
                yield "--"
            last = number
            line = text[number - 1]
            text_shown = (
                line if len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + "… (line cut)"
            )
            yield f"{number}{':' if number in hit_lines else '-'}{text_shown}"
