"""Planned file contents of conversations, in memory until they are written together."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import ToolError
from agent.security.files import file_io
from agent.text.text_document import LIMIT_BYTES, decode
from agent.tools.base import CallContext
from agent.tools.files.draft_check import Draft
from agent.tools.files.workspace_scope import holds_files_of_others
from agent.tools.files.write_set import write_set

if TYPE_CHECKING:
    from agent.code.lsp.draft_diagnostics import DraftDiagnostics, NewErrors

MAX_FILES = 100
MAX_BYTES = 5_000_000
# Sessions with planned files; the plan of the least recently used session is dropped.
_MAX_SESSIONS = 50


class VirtualDocuments:
    """Planned files of all sessions of an agent. Nothing touches the disk before `sync`."""

    def __init__(self, diagnostics: "DraftDiagnostics") -> None:
        self._diagnostics = diagnostics
        self._sessions: OrderedDict[str, dict[Path, Draft]] = OrderedDict()

    async def put(self, session: str, path: Path, text: str) -> None:
        """Plan this text as the content of a file. Raises `ToolError` when too much is planned."""
        drafts = self._drafts(session)
        earlier = drafts.get(path)
        before = earlier.before if earlier is not None else await read_text(path)
        others = [draft for draft in drafts.values() if draft.path != path]
        size = len(text.encode("utf-8", "replace"))
        size += sum(len((draft.after or "").encode("utf-8", "replace")) for draft in others)
        if len(others) >= MAX_FILES or size > MAX_BYTES:
            raise ToolError(
                f"At most {MAX_FILES} files and {MAX_BYTES // 1_000_000} MB can be planned at "
                "once; write some of them with sync_virtual first."
            )
        drafts[path] = Draft(path, before, text)

    def text(self, session: str, path: Path) -> str | None:
        """Return the planned content of a file, or None when none is planned."""
        draft = self._drafts(session).get(path)
        return draft.after if draft is not None else None

    def planned(self, session: str, paths: Sequence[Path] = ()) -> list[Draft]:
        """Return the drafts of these paths in this order, or all drafts sorted by path.

        Raises `ToolError` for a path without a draft and when nothing is planned.
        """
        drafts = self._drafts(session)
        if missing := next((path for path in paths if path not in drafts), None):
            raise ToolError(f"Nothing is planned for {missing}.")
        if not drafts:
            raise ToolError("Nothing is planned; create_virtual comes first.")
        chosen_paths = dict.fromkeys(paths) or sorted(drafts)
        return [drafts[path] for path in chosen_paths]

    async def find_errors(self, path: Path, call: CallContext) -> "NewErrors":
        """Return the errors that the planned files would introduce.

        A guest gets the errors of this path only: another person may have planned the other files.
        """
        paths = [path] if holds_files_of_others(call) else []
        return await self._diagnostics.find_errors(self.planned(call.session, paths), call)

    async def sync(self, session: str, drafts: Sequence[Draft], call: CallContext) -> None:
        """Write the drafts, all or none, and remove them from the plan. Raises `ToolError`."""
        await file_io.in_thread(lambda: write_set(drafts, call))
        planned = self._drafts(session)
        for draft in drafts:
            planned.pop(draft.path, None)
        await self._diagnostics.after_write(drafts)

    def end(self, session: str) -> None:
        """Discard the planned files of a session that has ended."""
        self._sessions.pop(session, None)

    def _drafts(self, session: str) -> dict[Path, Draft]:
        drafts = self._sessions.setdefault(session, {})
        self._sessions.move_to_end(session)
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return drafts


async def read_text(path: Path) -> str | None:
    """Return the current text of a file, or None when it does not exist. Raises `ToolError`."""

    def read() -> str | None:
        if file_io.kind(path) is None:
            return None
        return decode(file_io.read(path, LIMIT_BYTES), path).text

    return await asyncio.to_thread(read)
