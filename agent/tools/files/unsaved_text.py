"""What a person's editor shows of a file and has not saved yet, for the tools that read and change
files: they read that text, and a change to it is made to that text, on the disk and in the editor.
"""

from dataclasses import replace
from pathlib import Path

from agent.errors import KoreError, ToolError
from agent.prompts import load_prompt
from agent.records import frozen
from agent.security.files import file_io
from agent.security.taint.marked_write import keep_mark, write_marked
from agent.security.taint.taint import NOTHING
from agent.text.text_document import Document, decode
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews
from agent.types import ToolResult

# Larger files are the disk's alone.
LIMIT_BYTES = 1_000_000


@frozen
class UnsavedText:
    """`text` is what the editor shows, with the line ends of the file; None where that is what the
    disk holds, or nobody knows. `remark` is for the model."""

    text: str | None = None
    remark: str = ""

    def over(self, document: Document) -> Document:
        """The document as the editor shows it."""
        return document if self.text is None else Document(self.text, document.form)


async def read_unsaved(path: Path, call: CallContext) -> UnsavedText:
    """Ask the editor for a text file of the working folder, which the tool may open. An editor that
    does not answer leaves it to the disk."""
    editor = call.environment.editor
    if editor is None or not path.is_relative_to(call.workspace):
        return UnsavedText()
    try:
        document = await file_io.in_thread(lambda: decode(file_io.read(path, LIMIT_BYTES), path))
    except ToolError:
        # Not there, no text, or too large: the tool says so itself.
        return UnsavedText()
    try:
        text = await editor.read_text(path)
    except KoreError:
        return UnsavedText(remark=load_prompt("editor_silent"))
    if text is None:
        return UnsavedText()
    text = _with_line_ends_of(document.text, text)
    return UnsavedText() if text == document.text else UnsavedText(text, load_prompt("unsaved"))


def save_unsaved(path: Path, unsaved: UnsavedText, call: CallContext) -> None:
    """Put the editor's text on the disk, as saving it would: what is changed then, and what undo
    brings back, is the person's text. Blocks; the caller holds the file. Raises `ToolError`."""
    if unsaved.text is None:
        return
    document = decode(file_io.read(path, LIMIT_BYTES), path)
    write_marked(path, unsaved.over(document).encode(), call.workspace, NOTHING)


async def show_change(path: Path, call: CallContext, views: FileViews) -> str:
    """Have the editor take over what a tool has written, so that its buffer and its undo know.
    Returns a remark for the model; empty when all is well."""
    editor = call.environment.editor
    if editor is None or not path.is_relative_to(call.workspace):
        return ""
    try:
        before = await file_io.in_thread(lambda: file_io.read(path, LIMIT_BYTES))
        text = decode(before, path).text
    except ToolError:
        return ""
    try:
        # Editors replace files, and a mark would go with the old one.
        with keep_mark(path, call.workspace):
            is_shown = await editor.write_text(path, text)
    except KoreError:
        return load_prompt("editor_silent_write")
    if not is_shown:
        return ""
    try:
        after = await file_io.in_thread(lambda: file_io.read(path, LIMIT_BYTES))
    except ToolError:
        after = b""
    if after != before:
        # Such as an editor that formats what it saves. The next turn is told of the change.
        return load_prompt("editor_changed")
    views.record_write(call.session, path)
    return ""


def with_remarks(result: ToolResult, *remarks: str) -> ToolResult:
    """The result, with what the model is told of the editor."""
    words = "\n".join(dict.fromkeys(remark for remark in remarks if remark))
    if not words:
        return result
    return replace(
        result,
        for_model=f"{result.for_model}\n{words}",
        for_user=result.for_user if result.for_user is not None else result.for_model,
    )


def _with_line_ends_of(document: str, text: str) -> str:
    """Editors keep line ends apart from the text, and a mark at its beginning too."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    ends = document.count("\r\n")
    if not ends or ends != document.count("\n"):
        # With mixed ends, only the very text tells whether something has changed.
        return document if plain == document.replace("\r\n", "\n") else plain
    return plain.replace("\n", "\r\n")
