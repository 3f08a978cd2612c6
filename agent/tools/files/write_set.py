"""Atomic writes of several files."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from agent.errors import ToolError
from agent.records import frozen
from agent.security.files import file_io
from agent.security.files.file_io import exclusive_file
from agent.security.files.paths import folded_path
from agent.security.taint.marked_write import write_marked
from agent.text.text_document import MAX_BYTES, Document, TextFormat, decode
from agent.tools.base import CallContext
from agent.tools.files.draft_check import Draft
from agent.tools.files.feature_list import check_edit_allowed


@frozen
class _Write:
    path: Path
    before: Document | None
    after: Document


def write_set(drafts: Sequence[Draft], call: CallContext) -> None:
    """Write drafts, provided that no file has changed since the drafts were made.

    Blocks. If it raises `ToolError`, no file has changed, and the journal of changes says so.
    """
    with ExitStack() as stack:
        # In a fixed order, so that two calls never deadlock; each once, because names that differ
        # only in case share a lock.
        paths = {folded_path(draft.path): draft.path for draft in drafts}
        for _, path in sorted(paths.items()):
            stack.enter_context(exclusive_file(path))
        writes = [_prepare(draft) for draft in drafts]
        finished: list[_Write] = []
        data = {write.path: write.after.encode() for write in writes}
        with call.changes.files(data):
            try:
                for write in writes:
                    _put(write.path, data[write.path], call)
                    finished.append(write)
            except (ToolError, OSError):
                for write in reversed(finished):
                    _take_back(write, call)
                raise


def _prepare(draft: Draft) -> _Write:
    path, after = draft.path, draft.after
    if after is None:
        raise ToolError(f"{path} would be deleted; use move_file for that.")
    kind = file_io.kind(path)
    if kind is None:
        if draft.before is not None:
            raise ToolError(f"{path} does not exist any more; nothing was written.")
        return _Write(path, None, Document(after, TextFormat()))
    before = decode(file_io.read(path, MAX_BYTES), path)
    if before.text != draft.before:
        raise ToolError(f"{path} has changed meanwhile; nothing was written.")
    check_edit_allowed(path, before.text, after)
    return _Write(path, before, Document(after, before.form))


def _put(path: Path, data: bytes, call: CallContext) -> None:
    write_marked(path, data, call.workspace, call.taint)


def _take_back(write: _Write, call: CallContext) -> None:
    """Undo a write; the journal then finds that it never happened."""
    if write.before is not None:
        _put(write.path, write.before.encode(), call)
        return
    with file_io.explain_errors(write.path):
        write.path.unlink()
