"""Files that a person points at: their kind and their content for a message."""

from pathlib import Path
from typing import Literal

from agent.context.project.directory_tree import describe_size
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.safe_open import open_regular
from agent.text.media_types import MAX_PICTURE_BYTES, sniff_image_type
from agent.text.notebook import open_cells
from agent.text.text_document import Document, TextFormat

FileKind = Literal["folder", "picture", "text", "binary"]

# Only the beginning of a longer file is read.
FILE_LIMIT_BYTES = 1_000_000
_HEAD_BYTES = 8_192


@frozen
class PointedFile:
    """Content of a file.

    `text` is the content of a text file; for other kinds, `note` explains how the model can access
    the file. `is_cut` means that the file is longer than `text`.
    """

    kind: FileKind
    text: str
    size_bytes: int = 0
    is_cut: bool = False
    note: str = ""


def kind_of(path: Path) -> FileKind:
    """Return the kind of a file. Raise OSError on failure and for a pipe or a device."""
    if path.is_dir():
        return "folder"
    with open_regular(path) as file:
        return _kind(file.read(_HEAD_BYTES), path.stat().st_size)


def read_pointed_file(path: Path) -> PointedFile:
    """Return the current content of a file; an unreadable file has only a note."""
    try:
        size = path.stat().st_size
        with open_regular(path) as file:
            data = file.read(FILE_LIMIT_BYTES)
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        note = render_prompt("project_file_unreadable", path=path, reason=reason)
        return PointedFile("binary", "", note=note)
    kind = _kind(data[:_HEAD_BYTES], size)
    if kind == "text":
        text = open_cells(Document(data.decode("utf-8", "replace"), TextFormat()), path).text
        return PointedFile(kind, text, size, size > len(data))
    most = describe_size(MAX_PICTURE_BYTES)
    note = render_prompt("project_file_binary", path=path, size=describe_size(size), most=most)
    return PointedFile(kind, "", size, note=note)


def _kind(head: bytes, size_bytes: int) -> FileKind:
    if sniff_image_type(head[:16]) is not None:
        return "picture" if size_bytes <= MAX_PICTURE_BYTES else "binary"
    return "binary" if b"\0" in head or head.startswith(b"%PDF-") else "text"
