"""What those who look on are told of changes: whose they are, and many of them as one."""

import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from agent.code.watch.changes import MOST_PATHS, ChangeBatch
from agent.events import FileChanged
from agent.tools.file_views import FileViews, Stamp, stamp

Author = Literal["user", "agent", "tool"]

# From so many of one batch on there is one event for all.
SUMMARY_FROM = 20
# They say what they write (`FileViews.record_write`).
_FILE_TOOLS = frozenset(
    ("append_file", "apply_patch", "edit_file", "lsp_edit", "move_file", "write_file")
)


class ChangeReporter:
    """Describes each content of a file once. `own_session` is the conversation whose tools are
    called `tool`; without one every tool that wrote a file is an agent's. Any thread may call it.
    """

    def __init__(self, views: FileViews, own_session: str | None = None) -> None:
        self._views = views
        self._own_session = own_session
        self._reported: OrderedDict[str, Stamp] = OrderedDict()

    def is_new(self, path: str) -> bool:
        """Whether the file as it is now was not reported; from here on it is."""
        return self._note(path, stamp(Path(path)))

    def describe(self, batch: ChangeBatch, author: Author = "user") -> list[FileChanged]:
        """The events of a batch; `author` is who has changed what no tool is known to have
        written."""
        paths: dict[Author, list[str]] = {}
        for change in batch.changes:
            now = stamp(change.path)
            if self._note(str(change.path), now):
                by = self._author(change.path, now) or author
                paths.setdefault(by, []).append(str(change.path))
        if not batch.is_complete:
            count = max(2, sum(map(len, paths.values())))
            return [FileChanged(str(batch.root), author, count)]
        return [event for by, several in paths.items() for event in summarize(several, by)]

    def _author(self, path: Path, now: Stamp) -> Author | None:
        writer = self._views.writer(path, now)
        if writer is None:
            return None
        return "tool" if writer == self._own_session else "agent"

    def _note(self, path: str, now: Stamp) -> bool:
        before = self._reported.get(path)
        self._reported[path] = now
        self._reported.move_to_end(path)
        while len(self._reported) > MOST_PATHS:
            self._reported.popitem(last=False)
        return before != now


class WorkClock:
    """Whether tools of a conversation are at work, and which: what changes meanwhile is theirs.

    What a command has just written is told a moment after it has ended; of a tool for files it is
    known what it wrote.
    """

    _AFTER_S = 0.25

    def __init__(self) -> None:
        self._running: list[str] = []
        self._ended_at: dict[str, float] = {}

    def begin(self, tool: str) -> None:
        self._running.append(tool)

    def end(self, tool: str) -> None:
        self._running.remove(tool)
        if tool not in _FILE_TOOLS:
            self._ended_at[tool] = time.monotonic()

    def author(self) -> Author:
        """Who has probably changed a file that changed just now."""
        now = time.monotonic()
        tools = {tool for tool, at in self._ended_at.items() if now - at < self._AFTER_S}
        tools.update(self._running)
        if not tools:
            return "user"
        return "agent" if tools == {"task"} else "tool"


def summarize(paths: Sequence[str], by: Author) -> Iterable[FileChanged]:
    """An event for each path, or one with the folder that all are in."""
    if len(paths) < SUMMARY_FROM:
        return [FileChanged(path, by) for path in paths]
    return [FileChanged(os.path.commonpath(paths), by, len(paths))]
