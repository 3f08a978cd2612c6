"""Unsaved texts of a person's editor, for tools that read and change files.

The tools read the unsaved text, and apply changes to it, on the disk and in the editor.
"""

import os
import stat
from dataclasses import replace
from pathlib import Path

from agent.errors import EditorRefused, KoreError, ToolError
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.files import file_io
from agent.security.files.file_io import FileMissing, exclusive_file
from agent.security.files.safe_open import open_folder_beneath
from agent.security.taint.file_marks import MarkLevel, mark_level
from agent.security.taint.marked_write import keep_mark, write_marked
from agent.security.taint.taint import NOTHING
from agent.text.text_document import MAX_BYTES as LARGEST_BYTES
from agent.text.text_document import Document, decode
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews
from agent.types import ToolResult

# Larger files are read from the disk only.
MAX_BYTES = 1_000_000


@frozen
class UnsavedText:
    """Text of a file in the editor, with the line endings of the file.

    `text` is None if it equals the file on the disk or is unknown. `remark` is for the model.
    """

    text: str | None = None
    remark: str = ""

    def over(self, document: Document) -> Document:
        """Return the document as the editor shows it."""
        return document if self.text is None else Document(self.text, document.form)


async def read_unsaved(path: Path, call: CallContext) -> UnsavedText:
    """Ask the editor for a text file of the working folder that the tool may open.

    If the editor does not answer, the file on the disk counts.
    """
    editor = call.environment.editor
    if editor is None or not path.is_relative_to(call.workspace):
        return UnsavedText()
    try:
        document = await file_io.in_thread(lambda: decode(file_io.read(path, MAX_BYTES), path))
    except ToolError:
        # Missing, not text, or too large: the tool reports this itself.
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
    """Write the editor's text to the disk, as if the person had saved it.

    The tool then changes the person's text, and undo restores it. Blocks; the caller has locked the
    file. Raises `ToolError`.
    """
    if unsaved.text is None:
        return
    document = decode(file_io.read(path, MAX_BYTES), path)
    write_marked(path, unsaved.over(document).encode(), call.workspace, NOTHING)


@frozen
class EarlierFile:
    """File before a tool changed it; `data` is None if it did not exist."""

    path: Path
    data: bytes | None = None
    mode: int | None = None
    level: MarkLevel = "none"

    @staticmethod
    def at(path: Path) -> "EarlierFile":
        """Return the file as it is now. Blocks. Raises `ToolError` for anything but a file."""
        try:
            data = file_io.read(path, LARGEST_BYTES)
        except FileMissing:
            return EarlierFile(path)
        with file_io.explain_errors(path):
            mode = stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode)
        return EarlierFile(path, data, mode, mark_level(path))

    def put_back(self, new_data: bytes | None, call: CallContext) -> bool:
        """Restore the file, and return whether it is as before.

        A file that no longer has the content `new_data` is left alone. Blocks. Raises `ToolError`.
        """
        with exclusive_file(self.path):
            current = EarlierFile.at(self.path).data
            if current == self.data or current != new_data:
                return current == self.data
            if self.data is not None:
                write_marked(
                    self.path, self.data, call.workspace, NOTHING, mode=self.mode, level=self.level
                )
                return True
            with (
                file_io.explain_errors(self.path),
                open_folder_beneath(self.path.parent) as folder,
            ):
                os.unlink(self.path.name, dir_fd=folder)
        return True


async def show_change(earlier: EarlierFile, call: CallContext, views: FileViews) -> str:
    """Pass a tool's change to the editor, so that its buffer and its undo history include it.

    Return a remark for the model; empty if the editor accepted the text unchanged. If the editor
    refuses it, the change is undone. Raises `ToolError` then.
    """
    path = earlier.path
    editor = call.environment.editor
    if editor is None or not path.is_relative_to(call.workspace):
        return ""
    try:
        new_data = await file_io.in_thread(lambda: file_io.read(path, MAX_BYTES))
        text = decode(new_data, path).text
    except ToolError:
        return ""
    try:
        # Editors replace files, and the mark would disappear with the old file.
        with keep_mark(path, call.workspace):
            is_shown = await editor.write_text(path, text)
    except EditorRefused as exc:
        is_back = await file_io.in_thread(lambda: earlier.put_back(new_data, call))
        if is_back and earlier.data is not None:
            views.record_write(call.session, path)
        name = "editor_refused" if is_back else "editor_refused_changed"
        raise ToolError(render_prompt(name, path=path)) from exc
    except KoreError:
        return load_prompt("editor_silent_write")
    if not is_shown:
        return ""
    try:
        after = await file_io.in_thread(lambda: file_io.read(path, MAX_BYTES))
    except ToolError:
        after = b""
    if after != new_data:
        # For example, an editor that formats on save. The next turn reports the change.
        return load_prompt("editor_changed")
    views.record_write(call.session, path)
    return ""


def with_remarks(result: ToolResult, *remarks: str) -> ToolResult:
    """Return the result with remarks about the editor for the model."""
    words = "\n".join(dict.fromkeys(remark for remark in remarks if remark))
    if not words:
        return result
    return replace(
        result,
        for_model=f"{result.for_model}\n{words}",
        for_user=result.for_user if result.for_user is not None else result.for_model,
    )


def _with_line_ends_of(document: str, text: str) -> str:
    """Restore the document's line endings, which editors store separately, like a BOM."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    ends = document.count("\r\n")
    if not ends or ends != document.count("\n"):
        # With mixed line endings, only the exact text shows whether something changed.
        return document if plain == document.replace("\r\n", "\n") else plain
    return plain.replace("\n", "\r\n")
