"""`memory_search`: finds what was noted and said before, of the person who speaks only."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import KoreError, ToolError
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext, MemoryHit
from agent.tools.files.workspace_scope import WorkspaceScope, lines
from agent.tools.schema import parameters
from agent.types import Effect, JsonSchema, Taint, ToolResult

SHOWN = 10
MOST = 50
LINE_CHARS = 500
FILES = 200
_WORD = re.compile(r"\w+")


class MemorySearch:
    """Lines of the memory files that hold most of the words, and messages of past conversations.

    Which conversations are theirs is for the store to say (`call.recall`); without that
    the files alone are searched.
    """

    name: ClassVar[str] = "memory_search"
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(query="string", count="integer?")

    def __init__(self, settings: ToolSettings) -> None:
        self._scope = WorkspaceScope(settings)

    @property
    def description(self) -> str:
        return load_prompt("tools/memory_search")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        words = list(dict.fromkeys(_WORD.findall(_plain(args["query"]))))
        if not words:
            raise ToolError("The query contains no words; say what to look for.")
        most = min(max(1, int(args.get("count", SHOWN))), MOST)
        hits = await file_io.in_thread(lambda: self._search_files(words, most, call))
        note = ""
        if call.recall is not None:
            try:
                hits += await call.recall(args["query"], most)
            except KoreError as exc:
                note = f"\n({exc})"
        if not hits:
            return ToolResult(f"Nothing was found for {args['query']!r}.{note}")
        listing = "\n".join(f"- {one.place}: {one.text}" for one in hits)
        taint = NOTHING.union(*(one.taint for one in hits))
        return ToolResult(f"{listing}{note}", for_user=f"{len(hits)} places", taint=taint)

    def _search_files(self, words: Sequence[str], most: int, call: CallContext) -> list[MemoryHit]:
        ranked = []
        for path in self._files(call):
            taint = UNTRUSTED if is_marked(path) else NOTHING
            for number, line in enumerate(lines(path) or (), 1):
                plain = _plain(line)
                hits = sum(word in plain for word in words)
                if hits:
                    hit = MemoryHit(f"{path.name}:{number}", line.strip()[:LINE_CHARS], taint)
                    ranked.append((-hits, path.name, number, hit))
        ranked.sort(key=lambda one: one[:3])
        best = ranked[0][0] if ranked else 0
        # A line with one word of three is noise beside one that has all of them.
        return [hit for hits, _, _, hit in ranked[:most] if hits * 2 <= best]

    def _files(self, call: CallContext) -> list[Path]:
        """The speaker's memory file and what lies beside it; not the folders of others below."""
        try:
            memory = self._scope.memory(call)
        except ToolError:
            return []
        files = [memory]
        for path in sorted(memory.parent.glob("*.md"))[:FILES]:
            try:
                real = self._scope.find(str(path), call)
            except ToolError:
                continue
            if real.parent == memory.parent and real not in files:
                files.append(real)
        return files


def _plain(text: str) -> str:
    """Without case and accents: people do not write them the same each time."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
