"""A server's documents, brought to what the disk holds: nothing is asked of an older text."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from agent.code.lsp.session import LspSession
from agent.errors import ToolError
from agent.security.files import file_io
from agent.text.text_document import LIMIT_BYTES, decode
from agent.tools.file_views import Stamp, stamp

Change = Literal["created", "changed", "deleted"]
KINDS: dict[Change, int] = {"created": 1, "changed": 2, "deleted": 3}


def read_document(path: Path) -> tuple[str, Stamp]:
    """The text of a file and what it was found to be before. Raises `ToolError`; may block."""
    before = stamp(path)
    return decode(file_io.read(path, LIMIT_BYTES), path).text, before


async def open_from_disk(session: LspSession, path: Path, language: str) -> str:
    """Let the server know a file as the disk has it; its text. Raises `ToolError`."""
    text, file_stamp = await asyncio.to_thread(read_document, path)
    session.open(path, text, language).stamp = file_stamp
    return text


async def refresh(session: LspSession) -> None:
    """Tell the server of each open document that is no longer what the disk has: somebody has
    changed it, or a draft was not written."""
    stamps = {path: one.stamp for path, one in session.documents.items()}
    changed = await asyncio.to_thread(
        lambda: [path for path, one in stamps.items() if one is None or stamp(path) != one]
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


def tell_of_changes(session: LspSession, changes: Sequence[tuple[Path, Change]]) -> None:
    """Files of the project changed on the disk."""
    inside = [one for one in changes if one[0].is_relative_to(session.folder)]
    session.files_changed((path, KINDS[kind]) for path, kind in inside)
