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
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
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
# Limit of the system prompt: text beyond it would be stored but never read.
FILE_LIMIT_CHARS = 20_000
# Fraction of the limit above which the model is asked to merge lines.
_NEARLY_FULL_SHARE = 0.8
# A single NUL would make the memory a binary file, which can no longer be read or extended.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DATED = re.compile(r"^- \d{4}-\d\d-\d\d: ")
_SIGNS = " \t-*.,;:!?\"'`。，；：！？“”「」"
_MAX_LISTED = 5
_LIKE = 0.4
_CHANGE = parameters(text="string?", replaces="string?")
# Vendors reject an array without `items`.
_SEVERAL = {"more": {"type": "array", "items": _CHANGE}}
_ALIASES = dict.fromkeys(("fact", "content", "memory"), "text")


@frozen
class _MemoryChange:
    """Line to add, or replacement for the line that `replaces` quotes (empty to remove it)."""

    text: str
    replaces: str


class Remember:
    """Tool that adds, replaces or removes dated lines in `call.memory`.

    Several changes are applied in order and atomically. Existing text is not added again.
    """

    name: ClassVar[str] = "remember"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "think",
        label=mark_for_translation("Remembering {text}"),
        argument_aliases=_ALIASES,
        item_aliases={"more": _ALIASES},
        purpose="memory",
        only_adds=True,
    )
    effect: ClassVar[Effect] = "idempotent"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = {
        **_CHANGE,
        "properties": {**_CHANGE["properties"], **_SEVERAL},
    }

    def __init__(self, settings: ToolSettings) -> None:
        self._scope = WorkspaceScope(settings)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/remember")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        more = args.get("more") or []
        has_own = "text" in args or "replaces" in args or not more
        changes = [_parse_change(item) for item in ([args, *more] if has_own else more)]
        path = self._scope.memory(call)
        return ToolResult(await file_io.in_thread(lambda: _change_memory(path, changes, call)))


def _parse_change(item: Mapping[str, Any]) -> _MemoryChange:
    text, replaces = _one_line(item.get("text", "")), _one_line(item.get("replaces", ""))
    if not text and not replaces:
        raise ToolError("There is nothing to remember: the text is empty.")
    if len(text) > TEXT_LIMIT_CHARS:
        raise ToolError(
            f"The text has {len(text):,} characters; keep it under {TEXT_LIMIT_CHARS:,}."
        )
    return _MemoryChange(text, replaces)


def _change_memory(path: Path, changes: Sequence[_MemoryChange], call: CallContext) -> str:
    """Apply all changes and return a description. Raises `ToolError` without applying any."""
    # Two chats of the same person may write to the memory at the same time.
    with exclusive_file(path):
        old = _read_memory(path)
        edit = _MemoryEdit(old.text, changes)
        results = []
        for number, change in enumerate(changes, 1):
            try:
                results.append(edit.make(change))
            except ToolError as exc:
                if len(changes) == 1:
                    raise
                raise ToolError(f"Change {number} of {len(changes)}: {exc}") from exc
        text = edit.text
        if text != old.text:
            _write(path, Document(text, old.form), len(old.text), call)
    return "\n".join([*results, *_fullness(len(text))])


class _MemoryEdit:
    """Changes of one call, applied to the text of a memory.

    Quotes refer to the text before the call, because a line that merges others contains their words
    and would match, too.
    """

    def __init__(self, text: str, changes: Sequence[_MemoryChange]) -> None:
        self._lines = text.split("\n")
        self._facts = {_fact(line) for line in self._lines}
        self._replacements: dict[int, list[str]] = {}
        self._additions: list[str] = []
        texts = {change.text for change in changes if change.text}
        # A call is repeated after a crash. The lines that it removes are gone by then, and the
        # lines that it added may contain their words.
        self._is_repeated = bool(texts) and self._facts.issuperset(texts)
        self._replaceable = ["" if _fact(line) in texts else line for line in self._lines]

    @property
    def text(self) -> str:
        lines = [
            new_line
            for n, line in enumerate(self._lines)
            for new_line in self._replacements.get(n, [line])
        ]
        if not self._additions:
            return "\n".join(lines)
        if lines[-1]:
            lines.append("")
        return "\n".join([*lines[:-1], *self._additions, ""])

    def make(self, change: _MemoryChange) -> str:
        """Apply a change and return a description of it. Raises `ToolError`."""
        text = change.text
        is_stored = text in self._facts and bool(text)
        place = None
        if change.replaces:
            place = _place(
                self._replaceable, change.replaces, is_stored=is_stored or self._is_repeated
            )
        if place is None and not text:
            return "That line is no longer in the memory."
        if place is None and is_stored:
            return "That is already in the memory."
        line = f"- {datetime.now().astimezone():%Y-%m-%d}: {text}"
        self._facts.add(text)
        if place is None:
            self._additions.append(line)
            return "Remembered."
        old_fact = _fact(self._lines[place])
        if place in self._replacements:
            raise ToolError(f"Another change already replaces this line: {old_fact}")
        self._replacements[place] = [line] if text and not is_stored else []
        return f"{'Replaced' if text else 'Forgotten'}: {old_fact}"


def _fullness(chars: int) -> Sequence[str]:
    """Return a request to merge lines if the memory is nearly full."""
    if chars < FILE_LIMIT_CHARS * _NEARLY_FULL_SHARE:
        return ()
    return (render_prompt("memory_nearly_full", chars=f"{chars:,}", limit=f"{FILE_LIMIT_CHARS:,}"),)


def _write(path: Path, memory: Document, chars_before: int, call: CallContext) -> None:
    if len(memory.text) > FILE_LIMIT_CHARS and chars_before < len(memory.text):
        raise ToolError(
            f"The memory is full: {path.name} would have {len(memory.text):,} of "
            f"{FILE_LIMIT_CHARS:,} characters. Merge lines that belong together in the same call: "
            "`replaces` with an empty text forgets a line."
        )
    data = memory.encode()
    # A line approved by a person neither adds nor removes a taint mark.
    with call.changes.file(path, data):
        write_marked(path, data, call.workspace, NOTHING)


def _place(lines: Sequence[str], replaces: str, *, is_stored: bool) -> int | None:
    """Return the index of the remembered line that matches or contains `replaces`.

    Without a match, return None if the text is already stored (`is_stored`), because the call is a
    repetition; otherwise raise `ToolError`.
    """
    quote = _normal(replaces)
    facts = {n: _normal(_fact(line)) for n, line in enumerate(lines) if _DATED.match(line.strip())}
    places = [n for n, fact in facts.items() if fact == quote]
    places = places or [n for n, fact in facts.items() if quote and quote in fact]
    if len({facts[n] for n in places}) == 1:
        return places[0]
    if places:
        raise ToolError(
            f"{len(places)} remembered lines match {replaces!r}; quote one of them in full:"
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
    """Strip the date, case and surrounding punctuation, because models quote lines inexactly."""
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
