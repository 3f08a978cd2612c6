"""Events about changed files, with their authors."""

import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from agent.code.watch.changes import MAX_PATHS, ChangeBatch
from agent.events import FileChanged
from agent.tools.file_views import FileViews, Stamp, stamp
from agent.tools.traits import ToolTraits
from agent.types import ToolKind

Author = Literal["user", "agent", "tool"]

# A batch with at least this many changes becomes one event.
SUMMARY_FROM = 20


class ChangeReporter:
    """Source of events that reports each state of a file once. Thread-safe.

    Writes by tools of `own_session` have the author `tool`; without `own_session`, and for other
    sessions, the author is `agent`.
    """

    def __init__(self, views: FileViews, own_session: str | None = None) -> None:
        self._views = views
        self._own_session = own_session
        self._reported: OrderedDict[str, Stamp] = OrderedDict()

    def is_new(self, path: str) -> bool:
        """Return whether the current state of the file is unreported, and mark it as reported."""
        return self._record(path, stamp(Path(path)))

    def describe(self, batch: ChangeBatch, author: Author = "user") -> list[FileChanged]:
        """Return the events of a batch; `author` is assumed for changes without a known writer."""
        paths: dict[Author, list[str]] = {}
        for change in batch.changes:
            now = stamp(change.path)
            if self._record(str(change.path), now):
                by = self._author(change.path, now) or author
                paths.setdefault(by, []).append(str(change.path))
        if not batch.is_complete:
            count = max(2, sum(map(len, paths.values())))
            return [FileChanged(str(batch.root), author, count)]
        return [
            event for by, changed_paths in paths.items() for event in summarize(changed_paths, by)
        ]

    def _author(self, path: Path, now: Stamp) -> Author | None:
        writer = self._views.writer(path, now)
        if writer is None:
            return None
        return "tool" if writer == self._own_session else "agent"

    def _record(self, path: str, now: Stamp) -> bool:
        before = self._reported.get(path)
        self._reported[path] = now
        self._reported.move_to_end(path)
        while len(self._reported) > MAX_PATHS:
            self._reported.popitem(last=False)
        return before != now


class WorkClock:
    """Running tools of a conversation, to which concurrent changes are attributed.

    Changes made by a command are reported shortly after it has ended. Tools that name the files
    that they change record their writes (`FileViews.record_write`).
    """

    _DELAY_S = 0.25

    def __init__(self) -> None:
        self._running: list[ToolKind] = []
        self._ended_at: dict[ToolKind, float] = {}

    def begin(self, tool: ToolTraits) -> None:
        self._running.append(tool.kind)

    def end(self, tool: ToolTraits) -> None:
        self._running.remove(tool.kind)
        if not tool.names_changed_files:
            self._ended_at[tool.kind] = time.monotonic()

    def author(self) -> Author:
        """Return the probable author of a change that was just reported."""
        now = time.monotonic()
        kinds = {kind for kind, at in self._ended_at.items() if now - at < self._DELAY_S}
        kinds.update(self._running)
        if not kinds:
            return "user"
        return "agent" if kinds == {"delegate"} else "tool"


def summarize(paths: Sequence[str], by: Author) -> Iterable[FileChanged]:
    """Return one event per path, or a single event with the common folder for many paths."""
    if len(paths) < SUMMARY_FROM:
        return [FileChanged(path, by) for path in paths]
    return [FileChanged(os.path.commonpath(paths), by, len(paths))]
