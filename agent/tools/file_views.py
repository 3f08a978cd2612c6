"""What each conversation has seen of files, so that it is told when that is no longer so.

It is kept in memory: after a restart nothing is said of what was seen before it.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from agent.records import frozen

K = TypeVar("K")
V = TypeVar("V")
# Changed when its content is: when it was written, its size, and which file it is.
Stamp = tuple[int, int, int]

Knowledge = Literal["none", "old", "current"]

SESSIONS = 128
FILES = 64
WRITES = 1024


@frozen
class StaleView:
    """A file that is no longer what was seen, and who has changed it."""

    path: Path
    by: Literal["user", "agent", "tool"]


@dataclass(slots=True)
class _SessionViews:
    """One conversation's. `known_stamps` holds what a file was when it was last shown or
    written; `files` what it was when the model was last told of it. `pending_stamps` are
    reported to the next turn, `reported_views` still have to be sent as events."""

    files: OrderedDict[Path, Stamp] = field(default_factory=OrderedDict)
    known_stamps: dict[Path, Stamp] = field(default_factory=dict)
    pending_stamps: dict[Path, Stamp] = field(default_factory=dict)
    reported_views: list[StaleView] = field(default_factory=list)


class FileViews:
    """Of all conversations of an agent. Any thread may ask."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, _SessionViews] = OrderedDict()
        self._writers: OrderedDict[Path, tuple[str, Stamp]] = OrderedDict()
        self._lock = threading.Lock()

    def record_view(self, session: str, path: Path, found_stamp: Stamp) -> None:
        """The conversation was shown the file as it was when `stamp` found this."""
        with self._lock:
            views = self._sessions.get(session) or _SessionViews()
            _put_newest(self._sessions, session, views, SESSIONS)
            _put_newest(views.files, path, found_stamp, FILES)
            views.known_stamps[path] = found_stamp
            if len(views.known_stamps) > 2 * FILES:
                views.known_stamps = {
                    each: views.known_stamps[each]
                    for each in views.files
                    if each in views.known_stamps
                }

    def knowledge(self, session: str, path: Path) -> Knowledge:
        """What the conversation knows of the file as it is now."""
        now = stamp(path)
        with self._lock:
            views = self._sessions.get(session)
            last_stamp = views.known_stamps.get(path) if views else None
        if last_stamp is None:
            return "none"
        return "current" if last_stamp == now else "old"

    def record_write(self, session: str, path: Path) -> None:
        """A tool of this conversation has written the file, and knows what it holds."""
        new_stamp = stamp(path)
        self.record_view(session, path, new_stamp)
        with self._lock:
            _put_newest(self._writers, path, (session, new_stamp), WRITES)

    def writer(self, path: Path, found_stamp: Stamp) -> str | None:
        """The conversation whose tool has written what the file holds, if that is known."""
        with self._lock:
            session, last_stamp = self._writers.get(path, (None, None))
            return session if last_stamp == found_stamp else None

    def has_any(self, session: str) -> bool:
        """Whether the conversation has seen a file at all: of most there is nothing to ask the
        disk about."""
        with self._lock:
            return session in self._sessions

    def take_stale_views(self, session: str) -> list[StaleView]:
        """What has changed since it was seen; it is said once."""
        changed = self._find_changed(session)
        with self._lock:
            if (views := self._sessions.get(session)) is not None:
                views.files.update(changed)
            return [
                self._stale_view(session, path, new_stamp) for path, new_stamp in changed.items()
            ]

    def facts(self, session: str) -> Sequence[str]:
        """The same for the beginning of a turn; `mark_reported` confirms that it was shown."""
        changed = self._find_changed(session)
        with self._lock:
            if (views := self._sessions.get(session)) is not None:
                views.pending_stamps = changed
        return [describe_stale_files(list(changed))] if changed else ()

    def mark_reported(self, session: str) -> None:
        """The turn has begun."""
        with self._lock:
            if (views := self._sessions.get(session)) is not None:
                views.files.update(views.pending_stamps)
                reported, views.pending_stamps = views.pending_stamps, {}
                views.reported_views += [
                    self._stale_view(session, *one) for one in reported.items()
                ]
                del views.reported_views[:-FILES]

    def take_reported_views(self, session: str) -> list[StaleView]:
        """What the turn that begins was told, to be sent as events; each is returned once."""
        with self._lock:
            views = self._sessions.get(session)
            if views is None:
                return []
            noticed, views.reported_views = views.reported_views, []
            return noticed

    def end(self, session: str) -> None:
        """The session has ended: forget its files."""
        with self._lock:
            self._sessions.pop(session, None)

    def _find_changed(self, session: str) -> dict[Path, Stamp]:
        """The disk is asked without the lock: one that hangs must not hold up the others."""
        with self._lock:
            files = views.files if (views := self._sessions.get(session)) else {}
            earlier = dict(files)
        now = {path: stamp(path) for path in earlier}
        changed = {path: new_stamp for path, new_stamp in now.items() if new_stamp != earlier[path]}
        with self._lock:
            # What was shown anew meanwhile has not changed since.
            return {path: now for path, now in changed.items() if files.get(path) == earlier[path]}

    def _stale_view(self, session: str, path: Path, new_stamp: Stamp) -> StaleView:
        writer = self._writers.get(path)
        if writer is None or writer[1] != new_stamp:
            return StaleView(path, "user")
        return StaleView(path, "tool" if writer[0] == session else "agent")


def stamp(path: Path) -> Stamp:
    """What tells the file's content from another; zeros where there is none."""
    try:
        info = os.lstat(path)
    except OSError:
        return (0, 0, 0)
    return (info.st_mtime_ns, info.st_size, info.st_ino)


def describe_stale_files(paths: Sequence[Path]) -> str:
    """For the model."""
    from agent.prompts import render_prompt
    from agent.text.visible import escape_line

    return render_prompt("stale", files=", ".join(escape_line(str(path)) for path in paths))


def _put_newest(entries: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """As the newest; beyond `most` the oldest go."""
    entries[key] = value
    entries.move_to_end(key)
    while len(entries) > most:
        entries.popitem(last=False)
