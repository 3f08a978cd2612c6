"""`memory_search`: finds what was noted and said before, of whoever speaks and nobody else."""

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

    Which conversations are theirs is for whoever keeps them to say (`call.recall`); without that
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
            raise ToolError("There is no word in the query; say what to look for.")
        most = min(max(1, int(args.get("count", SHOWN))), MOST)
        found = await file_io.in_thread(lambda: self._noted(words, most, call))
        note = ""
        if call.recall is not None:
            try:
                found += await call.recall(args["query"], most)
            except KoreError as exc:
                note = f"\n({exc})"
        if not found:
            return ToolResult(f"Nothing was found for {args['query']!r}.{note}")
        shown = "\n".join(f"- {one.place}: {one.text}" for one in found)
        taint = NOTHING.union(*(one.taint for one in found))
        return ToolResult(f"{shown}{note}", for_user=f"{len(found)} places", taint=taint)

    def _noted(self, words: Sequence[str], most: int, call: CallContext) -> list[MemoryHit]:
        ranked = []
        for path in self._files(call):
            marked = UNTRUSTED if is_marked(path) else NOTHING
            for number, line in enumerate(lines(path) or (), 1):
                plain = _plain(line)
                held = sum(word in plain for word in words)
                if held:
                    told = MemoryHit(f"{path.name}:{number}", line.strip()[:LINE_CHARS], marked)
                    ranked.append((-held, path.name, number, told))
        ranked.sort(key=lambda one: one[:3])
        best = ranked[0][0] if ranked else 0
        # A line with one word of three is noise beside one that has all of them.
        return [told for held, _, _, told in ranked[:most] if held * 2 <= best]

    def _files(self, call: CallContext) -> list[Path]:
        """The speaker's memory file and what lies beside it; not the folders of others below."""
        try:
            memory = self._scope.memory(call)
        except ToolError:
            return []
        found = [memory]
        for path in sorted(memory.parent.glob("*.md"))[:FILES]:
            try:
                real = self._scope.find(str(path), call)
            except ToolError:
                continue
            if real.parent == memory.parent and real not in found:
                found.append(real)
        return found


def _plain(text: str) -> str:
    """Without case and accents: people do not write them the same each time."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
