"""`remember`: keeps a fact in the long-term memory file of the person who speaks."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.files.file_io import exclusive_file
from agent.security.taint.file_marks import taint_of_file
from agent.security.taint.taint import NOTHING
from agent.settings import ToolSettings
from agent.text.text_document import LIMIT_BYTES, Document, TextFormat, decode
from agent.tools.base import CallContext
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.schema import parameters
from agent.types import Effect, JsonSchema, Taint, ToolResult

TEXT_LIMIT_CHARS = 2_000
# As much as the system prompt holds: what lies beyond would be stored and never read.
FILE_LIMIT_CHARS = 20_000
# One NUL would make the memory a binary file, which nothing reads or adds to any more.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DATED = re.compile(r"^- \d{4}-\d\d-\d\d: ")


class Remember:
    """Adds one dated line to `call.memory`; a text that is there already is not added again."""

    name: ClassVar[str] = "remember"
    effect: ClassVar[Effect] = "idempotent"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = parameters(text="string")

    def __init__(self, settings: ToolSettings) -> None:
        self._scope = WorkspaceScope(settings)

    @property
    def description(self) -> str:
        return load_prompt("tools/remember")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        text = " ".join(_CONTROL.sub(" ", args["text"]).split())
        if not text:
            raise ToolError("There is nothing to remember: the text is empty.")
        if len(text) > TEXT_LIMIT_CHARS:
            raise ToolError(
                f"The text has {len(text):,} characters; keep it under {TEXT_LIMIT_CHARS:,}."
            )
        added = await file_io.in_thread(lambda: _add(self._scope.memory(call), text, call))
        return ToolResult("Remembered." if added else "That is remembered already.")


def _add(path: Path, text: str, call: CallContext) -> bool:
    line = f"- {datetime.now().astimezone():%Y-%m-%d}: {text}"
    # Two chats of one person may remember at the same moment.
    with exclusive_file(path):
        old = _read_memory(path)
        if any(_DATED.sub("", entry.strip()) == text for entry in old.text.splitlines()):
            return False
        gap = "" if not old.text or old.text.endswith("\n") else "\n"
        new_text = f"{old.text}{gap}{line}\n"
        if len(new_text) > FILE_LIMIT_CHARS:
            raise ToolError(
                f"The memory is full ({FILE_LIMIT_CHARS:,} characters in {path.name}); "
                "clean it up first."
            )
        data = Document(new_text, old.form).encode()
        # A line that a person was asked about brings no mark, and takes none off.
        with call.changes.file(path, data), taint_of_file(path, call.workspace, NOTHING):
            file_io.write_atomic(path, data)
        return True


def _read_memory(path: Path) -> Document:
    if file_io.kind(path) is None:
        return Document("", TextFormat())
    document = decode(file_io.read(path, LIMIT_BYTES), path)
    if document.form.encoding != TextFormat().encoding:
        # The prompt reads memories as UTF-8: what was added otherwise would be read back torn.
        raise ToolError(
            f"{path.name} is in {document.form.encoding}, but memories are read as UTF-8; nothing "
            "was added. Save it as UTF-8 first."
        )
    return document
