"""Events about changed files: their authors, and many changes as one event."""

import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from agent.code.watch.changes import MOST_PATHS, ChangeBatch
from agent.events import FileChanged
from agent.tools.file_views import FileViews, Stamp, stamp
from agent.tools.traits import ToolTraits
from agent.types import ToolKind

Author = Literal["user", "agent", "tool"]

# From so many of one batch on there is one event for all.
SUMMARY_FROM = 20


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
    """Tools of a conversation that are at work: what changes meanwhile is theirs.

    What a command has just written is reported a moment after it has ended. Tools that name the
    files they change record what they write (`FileViews.record_write`).
    """

    _AFTER_S = 0.25

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
        """Return who has probably changed a file that changed just now."""
        now = time.monotonic()
        kinds = {kind for kind, at in self._ended_at.items() if now - at < self._AFTER_S}
        kinds.update(self._running)
        if not kinds:
            return "user"
        return "agent" if kinds == {"delegate"} else "tool"


def summarize(paths: Sequence[str], by: Author) -> Iterable[FileChanged]:
    """An event for each path, or one with the folder that all are in."""
    if len(paths) < SUMMARY_FROM:
        return [FileChanged(path, by) for path in paths]
    return [FileChanged(os.path.commonpath(paths), by, len(paths))]
