"""Session storage for library users: in memory or as JSONL files."""

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

from agent.context.compaction.marker import CompactionMarker, mark_from_json, mark_to_json
from agent.context.memory_snapshot import MemorySnapshot, snapshot_from_json, snapshot_to_json
from agent.errors import KoreError
from agent.i18n import t
from agent.security.files.file_io import write_atomic
from agent.security.files.private_folder import make_private_folder
from agent.serialization import dumps, message_from_json, message_to_json
from agent.types import Message
from agent.undo.blob_store import BlobStore
from agent.undo.change_log import ChangeLog
from agent.undo.recorder import OpenChangeLog

_MARK = b'{"_type":"summary"'
_MEMORY = b'{"_type":"memory"'


class History(Protocol):
    """Storage of sessions for library users; the gateway passes its history as data instead."""

    async def load(self, session: str) -> Sequence[Message]: ...

    async def append(self, session: str, messages: Sequence[Message]) -> None: ...


class MemoryHistory:
    """Sessions that live as long as the process."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[Message]] = {}
        self._marks: dict[str, CompactionMarker] = {}
        self._memories: dict[str, MemorySnapshot] = {}

    async def load(self, session: str) -> list[Message]:
        return list(self._sessions.get(session, ()))

    async def append(self, session: str, messages: Sequence[Message]) -> None:
        self._sessions.setdefault(session, []).extend(messages)

    async def mark(self, session: str) -> CompactionMarker:
        return self._marks.get(session) or CompactionMarker()

    async def set_mark(self, session: str, mark: CompactionMarker) -> None:
        self._marks[session] = mark

    async def memory(self, session: str) -> MemorySnapshot | None:
        return self._memories.get(session)

    async def set_memory(self, session: str, memory: MemorySnapshot) -> None:
        self._memories[session] = memory


class JsonlHistory:
    """Storage with one `SESSION.jsonl` file per session.

    A file has a meta line, a line for each message, and lines for summaries and for the memory at
    the start of the session. `.views` next to them contains the files that sessions have seen. A
    line cut short by a crash at the end of the file is dropped when the file is read.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    async def load(self, session: str) -> Sequence[Message]:
        """Return the messages. Raises `KoreError`, which names a damaged line."""
        path = self._path(session)
        if not path.exists():
            return []
        content = path.read_bytes()
        complete_bytes = content.rfind(b"\n") + 1
        if complete_bytes < len(content):
            os.truncate(path, complete_bytes)
        messages: list[Message] = []
        for number, line in enumerate(content[:complete_bytes].splitlines(), 1):
            try:
                record = json.loads(line)
                if "_type" not in record:
                    messages.append(message_from_json(record))
            except (ValueError, TypeError, KoreError) as exc:
                raise KoreError(
                    t(
                        "{path}, line {number}: not a valid message ({reason}). Fix or delete"
                        " that line.",
                        path=path,
                        number=number,
                        reason=exc,
                    )
                ) from exc
        return messages

    async def append(self, session: str, messages: Sequence[Message]) -> None:
        path = self._path(session)
        make_private_folder(path.parent)
        records = [] if path.exists() else [{"_type": "meta", "id": session}]
        records += [message_to_json(message) for message in messages]
        path.touch(mode=0o600)
        with path.open("ab") as file:
            file.write("".join(dumps(record) + "\n" for record in records).encode())

    async def list(self) -> Sequence[str]:
        """Return the existing sessions, most recently used first."""
        files = [path for path in self.folder.glob("*.jsonl") if path.is_file()]
        files.sort(key=lambda path: (-path.stat().st_mtime_ns, path.name))
        return [path.name.removesuffix(".jsonl") for path in files]

    async def mark(self, session: str) -> CompactionMarker:
        path = self._path(session)
        marker_line = self._last_line(path, _MARK)
        try:
            return mark_from_json(json.loads(marker_line)) if marker_line else CompactionMarker()
        except (ValueError, KeyError, TypeError) as exc:
            raise KoreError(
                t(
                    "{path}: a summary is damaged ({reason!r}). Delete that line.",
                    path=path,
                    reason=exc,
                )
            ) from exc

    async def set_mark(self, session: str, mark: CompactionMarker) -> None:
        with self._path(session).open("ab") as file:
            file.write((dumps({"_type": "summary", **mark_to_json(mark)}) + "\n").encode())

    async def memory(self, session: str) -> MemorySnapshot | None:
        path = self._path(session)
        line = self._last_line(path, _MEMORY)
        try:
            return None if line is None else snapshot_from_json(line)
        except (ValueError, KeyError, TypeError) as exc:
            raise KoreError(
                t(
                    "{path}: a memory line is damaged ({reason!r}). Delete that line.",
                    path=path,
                    reason=exc,
                )
            ) from exc

    async def set_memory(self, session: str, memory: MemorySnapshot) -> None:
        with self._path(session).open("ab") as file:
            file.write((dumps({"_type": "memory", **snapshot_to_json(memory)}) + "\n").encode())

    async def file_views(self, session: str) -> str | None:
        path = self._views_path(session)
        return path.read_text(encoding="utf-8") if path.exists() else None

    async def set_file_views(self, session: str, text: str) -> None:
        path = self._views_path(session)
        make_private_folder(path.parent)
        write_atomic(path, text.encode(), 0o600)

    def _views_path(self, session: str) -> Path:
        return self.folder / ".views" / self._path(session).with_suffix(".json").name

    def _last_line(self, path: Path, beginning: bytes) -> bytes | None:
        lines = path.read_bytes().splitlines() if path.exists() else []
        return next((line for line in reversed(lines) if line.startswith(beginning)), None)

    def _path(self, session: str) -> Path:
        if not session or set(session) & set("/\\\0") or session.startswith("."):
            raise KoreError(
                t("{session!r} is not a valid session name; use a plain file name", session=session)
            )
        return self.folder / f"{session}.jsonl"


def change_log_of(history: History) -> OpenChangeLog | None:
    """Return the journal of changes next to a history in a folder; None for others."""
    if not isinstance(history, JsonlHistory):
        return None
    folder = history.folder / ".undo"

    @cache
    def open_changes() -> "ChangeLog":
        from agent.undo.file_ledger import FileLedger

        return ChangeLog(FileLedger(folder), BlobStore(folder))

    return open_changes
