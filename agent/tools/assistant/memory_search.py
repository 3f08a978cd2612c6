"""`memory_search` tool: find notes and past messages of the current speaker only."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import KoreError, ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.settings import ToolSettings
from agent.text.ranking import (
    MAX_SIMILAR,
    NOISE_SHARE,
    count_shared_prefixes,
    fused,
    most_alike,
    query_terms,
    scores,
)
from agent.tools.base import CallContext, MemoryHit
from agent.tools.files.workspace_scope import WorkspaceScope, lines
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

DEFAULT_HITS = 10
MAX_HITS = 50
MAX_LINE_CHARS = 500
MAX_FILES = 200
_AROUND_LINES = 10
_DATED = re.compile(r"^- \d{4}-\d\d-\d\d: ")
_WORD = re.compile(r"\w+")
# Prefix of a hit: MEMORY.md:3, or 20250218_001946:12.
_ID = re.compile(r"[\s\[-]*([^\s:\[]+):(\d{1,9})\]?,?\s*")


class MemorySearch:
    """Tool that searches memory files, ranked by BM25, and messages of past conversations.

    Each hit begins with an id. For an id, the tool shows the surrounding lines or messages. The
    store decides which conversations belong to the speaker (`call.recall`); without it only the
    files are searched.
    """

    name: ClassVar[str] = "memory_search"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "search",
        label=mark_for_translation("Searching the memory for {query}"),
        aliases=("searchmemory", "recall"),
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(query="string", count="integer?")

    def __init__(self, settings: ToolSettings) -> None:
        self._scope = WorkspaceScope(settings)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/memory_search")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        if not _WORD.search(args["query"]):
            raise ToolError("The query contains no words; say what to look for.")
        if (id_ := _ID.fullmatch(args["query"])) and (
            around := await self._open(id_[1], int(id_[2]), call)
        ):
            return around
        count = min(max(1, int(args.get("count", DEFAULT_HITS))), MAX_HITS)
        hits, note = await self._search_files(args["query"], count, call)
        if call.recall is not None:
            try:
                hits += await call.recall(args["query"], count)
            except KoreError as exc:
                note += f"\n({call.error_text(exc)})"
        if not hits:
            return ToolResult(
                f"Nothing was found for {args['query']!r}. Try other words for it.{note}"
            )
        return _listing(hits, f"{len(hits)} places", note)

    async def _open(self, name: str, number: int, call: CallContext) -> ToolResult | None:
        """Return the text around a hit, or None if there is no hit with this id."""
        hits: Sequence[MemoryHit] = await file_io.in_thread(
            lambda: self._lines_around(name, number, call)
        )
        if not hits and call.recall_around is not None:
            try:
                hits = await call.recall_around(name, number)
            except KoreError as exc:
                raise ToolError(call.error_text(exc)) from None
        return _listing(hits, f"around {name}:{number}") if hits else None

    def _lines_around(self, name: str, number: int, call: CallContext) -> list[MemoryHit]:
        path = next((path for path in self._files(call) if path.name == name), None)
        near = range(number - _AROUND_LINES, number + _AROUND_LINES + 1)
        hits = _hits_of(path) if path is not None else []
        return [hit for n, hit in hits if n in near]

    async def _search_files(
        self, query: str, count: int, call: CallContext
    ) -> tuple[list[MemoryHit], str]:
        """Return the best lines and a note on sources that could not be searched."""
        hits = await file_io.in_thread(lambda: self._all_lines(call))
        texts = [hit.text for hit in hits]
        ranking, note = _by_words(query, texts), ""
        if call.similarity is not None and hits:
            try:
                cosines = await call.similarity(query, [_DATED.sub("", text) for text in texts])
                ranking = fused(ranking[:count], most_alike(cosines, MAX_SIMILAR))
            except KoreError as exc:
                note = f"\n(searched by words alone: {call.error_text(exc)})"
        return [hits[n] for n in ranking[:count]], note

    def _all_lines(self, call: CallContext) -> list[MemoryHit]:
        return [hit for path in self._files(call) for _, hit in _hits_of(path)]

    def _files(self, call: CallContext) -> list[Path]:
        """Return the speaker's memory file and its siblings, without other people's folders."""
        try:
            memory = self._scope.memory(call)
        except ToolError:
            return []
        files = [memory]
        for path in sorted(memory.parent.glob("*.md"))[:MAX_FILES]:
            try:
                real = self._scope.find(str(path), call)
            except ToolError:
                continue
            if real.parent == memory.parent and real not in files:
                files.append(real)
        return files


def _by_words(query: str, texts: Sequence[str]) -> list[int]:
    """Return the indexes of matching texts, best first."""
    terms = query_terms(query)
    ranks = scores(terms, texts)
    if not any(ranks):
        ranks = [float(count_shared_prefixes(terms, text)) for text in texts]
    least = max(ranks, default=0.0) * NOISE_SHARE
    # A line with one of three words is noise if another line has all of them.
    places = [n for n, rank in enumerate(ranks) if rank > 0 and rank >= least]
    return sorted(places, key=lambda n: -ranks[n])


def _hits_of(path: Path) -> list[tuple[int, MemoryHit]]:
    """Return the non-empty lines of a file with their line numbers."""
    taint = UNTRUSTED if is_marked(path) else NOTHING
    return [
        (number, MemoryHit(f"{path.name}:{number}", line.strip()[:MAX_LINE_CHARS], taint))
        for number, line in enumerate(lines(path) or (), 1)
        if line.strip()
    ]


def _listing(hits: Sequence[MemoryHit], for_user: str, note: str = "") -> ToolResult:
    text = "\n".join(f"- {hit.place}: {hit.text}" for hit in hits)
    taint = NOTHING.union(*(hit.taint for hit in hits))
    return ToolResult(f"{text}{note}", for_user=for_user, taint=taint)
