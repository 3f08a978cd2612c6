"""Synchronization of a server's open documents with the disk."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from agent.code.lsp.session import LspSession
from agent.errors import ToolError
from agent.security.files import file_io
from agent.text.text_document import MAX_BYTES, decode
from agent.tools.file_views import Stamp, stamp

Change = Literal["created", "changed", "deleted"]
KINDS: dict[Change, int] = {"created": 1, "changed": 2, "deleted": 3}


def read_document(path: Path) -> tuple[str, Stamp]:
    """Return the text of a file and its stamp from before the read. Raises `ToolError`; may
    block."""
    before = stamp(path)
    return decode(file_io.read(path, MAX_BYTES), path).text, before


async def open_from_disk(session: LspSession, path: Path, language: str) -> str:
    """Open a file in the server with its text on disk and return the text. Raises `ToolError`."""
    text, file_stamp = await asyncio.to_thread(read_document, path)
    session.open(path, text, language).stamp = file_stamp
    return text


async def refresh(session: LspSession) -> None:
    """Synchronize open documents that differ from the disk.

    A document differs if its file was changed or if its draft was not written.
    """
    stamps = {path: document.stamp for path, document in session.documents.items()}
    changed = await asyncio.to_thread(
        lambda: [
            path
            for path, document_stamp in stamps.items()
            if document_stamp is None or stamp(path) != document_stamp
        ]
    )
    events = []
    for path in changed:
        document = session.documents.get(path)
        if document is None:
            continue
        try:
            await open_from_disk(session, path, document.language)
            events.append((path, KINDS["changed"]))
        except ToolError:
            session.close_document(path)
            events.append((path, KINDS["deleted"]))
    session.files_changed(events)


def notify_changes(session: LspSession, changes: Sequence[tuple[Path, Change]]) -> None:
    """Notify the server of changed files in its folder."""
    inside = [change for change in changes if change[0].is_relative_to(session.folder)]
    session.files_changed((path, KINDS[kind]) for path, kind in inside)
