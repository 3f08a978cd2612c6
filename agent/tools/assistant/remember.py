"""`remember` tool: store a fact in the long-term memory file of the current speaker."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.files.file_io import exclusive_file
from agent.security.taint.marked_write import write_marked
from agent.security.taint.taint import NOTHING
from agent.settings import ToolSettings
from agent.text.text_document import MAX_BYTES, Document, TextFormat, decode
from agent.tools.base import CallContext
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

TEXT_LIMIT_CHARS = 2_000
# Limit of the system prompt: text beyond it would be stored and never read.
FILE_LIMIT_CHARS = 20_000
# A single NUL would make the memory a binary file, which can no longer be read or extended.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DATED = re.compile(r"^- \d{4}-\d\d-\d\d: ")
_SIGNS = " \t-*.,;:!?\"'`。，；：！？“”「」"
_MAX_LISTED = 5
_LIKE = 0.4


class Remember:
    """Tool that adds a dated line to `call.memory`, or replaces or removes such a line.

    A text that already exists is not added again.
    """

    name: ClassVar[str] = "remember"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "think",
        label=mark_for_translation("Remembering {text}"),
        argument_aliases=dict.fromkeys(("fact", "content", "memory"), "text"),
        purpose="memory",
        only_adds=True,
    )
    effect: ClassVar[Effect] = "idempotent"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = parameters(text="string", replaces="string?")

    def __init__(self, settings: ToolSettings) -> None:
        self._scope = WorkspaceScope(settings)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/remember")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        text = _one_line(args["text"])
        replaces = _one_line(args.get("replaces", ""))
        if not text and not replaces:
            raise ToolError("There is nothing to remember: the text is empty.")
        if len(text) > TEXT_LIMIT_CHARS:
            raise ToolError(
                f"The text has {len(text):,} characters; keep it under {TEXT_LIMIT_CHARS:,}."
            )
        path = self._scope.memory(call)
        return ToolResult(await file_io.in_thread(lambda: _change(path, text, replaces, call)))


def _change(path: Path, text: str, replaces: str, call: CallContext) -> str:
    """Apply the change and return a description of it."""
    # Two chats of one person may write to the memory at the same time.
    with exclusive_file(path):
        old = _read_memory(path)
        lines = old.text.split("\n")
        is_stored = bool(text) and any(_fact(line) == text for line in lines)
        place = _place(lines, replaces, is_stored=is_stored) if replaces else None
        if place is None and is_stored:
            return "That is remembered already."
        line = f"- {datetime.now().astimezone():%Y-%m-%d}: {text}"
        old_fact = ""
        if place is None:
            if lines[-1]:
                lines.append("")
            lines.insert(-1, line)
        else:
            old_fact = _fact(lines[place])
            if old_fact == text:
                return "That is remembered already."
            lines[place : place + 1] = [line] if text and not is_stored else []
        _write(path, Document("\n".join(lines), old.form), call)
    if not old_fact:
        return "Remembered."
    return f"{'Replaced' if text else 'Forgotten'}: {old_fact}"


def _write(path: Path, memory: Document, call: CallContext) -> None:
    if len(memory.text) > FILE_LIMIT_CHARS:
        raise ToolError(
            f"The memory is full ({FILE_LIMIT_CHARS:,} characters in {path.name}); clean it up "
            "first: `replaces` with an empty text forgets a line."
        )
    data = memory.encode()
    # A line approved by a person neither adds nor removes a taint mark.
    with call.changes.file(path, data):
        write_marked(path, data, call.workspace, NOTHING)


def _place(lines: Sequence[str], replaces: str, *, is_stored: bool) -> int | None:
    """Return the index of the remembered line that matches or contains `replaces`.

    Return None without such a line if the text is stored (`is_stored`): the call is a repetition.
    """
    quote = _normal(replaces)
    facts = {n: _normal(_fact(line)) for n, line in enumerate(lines) if _DATED.match(line.strip())}
    places = [n for n, fact in facts.items() if fact == quote]
    places = places or [n for n, fact in facts.items() if quote and quote in fact]
    if len({facts[n] for n in places}) == 1:
        return places[0]
    if places:
        raise ToolError(
            f"{len(places)} remembered lines match {replaces!r}; give one of them whole:"
            + _listing(lines, places)
        )
    if is_stored:
        return None
    nearest = sorted(facts, key=lambda n: -_likeness(facts[n], quote))
    close = [n for n in nearest if _likeness(facts[n], quote) >= _LIKE]
    raise ToolError(
        f"No remembered line matches {replaces!r}; nothing was changed. "
        + (f"Close to it:{_listing(lines, close)}" if close else "None is close to it.")
        + "\nLines that the person wrote by hand are changed with edit_file."
    )


def _listing(lines: Sequence[str], places: Sequence[int]) -> str:
    return "".join(f"\n- {_fact(lines[n])}" for n in places[:_MAX_LISTED])


def _likeness(left: str, right: str) -> float:
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def _one_line(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())


def _fact(line: str) -> str:
    return _DATED.sub("", line.strip())


def _normal(text: str) -> str:
    """Return the text without date, case and surrounding signs: models quote lines inexactly."""
    plain = unicodedata.normalize("NFKC", _DATED.sub("", text.strip())).casefold()
    return " ".join(plain.strip(_SIGNS).split())


def _read_memory(path: Path) -> Document:
    if file_io.kind(path) is None:
        return Document("", TextFormat())
    document = decode(file_io.read(path, MAX_BYTES), path)
    if document.form.encoding != TextFormat().encoding:
        # The prompt reads memories as UTF-8, so other encodings would be garbled when read back.
        raise ToolError(
            f"{path.name} is in {document.form.encoding}, but memories are read as UTF-8; nothing "
            "was added. Save it as UTF-8 first."
        )
    return document
