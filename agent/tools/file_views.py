"""What each conversation has seen of files, so that it is told when that is no longer so.

It is in memory, and whoever stores conversations stores it with them (`take_stored_form`).
"""

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from agent.records import frozen
from agent.security.files.regular_file import read_regular

K = TypeVar("K")
V = TypeVar("V")
# Changed when its content is: when it was written, its size, and which file it is.
Stamp = tuple[int, int, int]

Knowledge = Literal["none", "old", "current"]

# What tells content from content where times differ; larger files are told by their times alone.
DIGEST_LIMIT_BYTES = 1_000_000

SESSIONS = 128
FILES = 64
WRITES = 1024


@frozen
class StaleView:
    """A file that is no longer what was seen, and who has changed it."""

    path: Path
    by: Literal["user", "agent", "tool"]


@runtime_checkable
class FileViewStore(Protocol):
    """A history that also keeps what its sessions have seen of files, as text."""

    async def file_views(self, session: str) -> str | None: ...

    async def set_file_views(self, session: str, text: str) -> None: ...


@dataclass(slots=True)
class _SessionViews:
    """One conversation's. `known_stamps` holds what a file was when it was last shown or
    written; `files` what it was when the model was last told of it, and `digests` of what content.
    `pending_stamps` are reported to the next turn, `reported_views` still have to be sent as
    events. `is_stored`: whoever stores the conversation has it as it is."""

    files: OrderedDict[Path, Stamp] = field(default_factory=OrderedDict)
    known_stamps: dict[Path, Stamp] = field(default_factory=dict)
    pending_stamps: dict[Path, Stamp] = field(default_factory=dict)
    reported_views: list[StaleView] = field(default_factory=list)
    digests: dict[Path, tuple[Stamp, str]] = field(default_factory=dict)
    is_stored: bool = False
    # Of texts in an editor that were shown and are not on the disk. Nobody stores these.
    unsaved_digests: OrderedDict[Path, bytes] = field(default_factory=OrderedDict)


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
            views.is_stored = False
            if len(views.known_stamps) > 2 * FILES:
                views.known_stamps = {
                    each: views.known_stamps[each]
                    for each in views.files
                    if each in views.known_stamps
                }
            for each in views.digests.keys() - views.files.keys():
                del views.digests[each]

    def knowledge(self, session: str, path: Path) -> Knowledge:
        """What the conversation knows of the file as it is now."""
        now = stamp(path)
        with self._lock:
            views = self._sessions.get(session)
            last_stamp = views.known_stamps.get(path) if views else None
        if last_stamp is None:
            return "none"
        return "current" if last_stamp == now else "old"

    def record_unsaved(self, session: str, path: Path, text: str) -> None:
        """The conversation was shown this text of a file, which an editor has not saved."""
        with self._lock:
            if (views := self._sessions.get(session)) is not None:
                _put_newest(views.unsaved_digests, path, _digest_of_text(text), FILES)

    def has_seen_unsaved(self, session: str, path: Path, text: str) -> bool:
        """Whether the conversation was shown this very text of the file."""
        with self._lock:
            views = self._sessions.get(session)
            digest = views.unsaved_digests.get(path) if views is not None else None
        return digest == _digest_of_text(text)

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

    def seen_files(self, session: str) -> list[Path]:
        """The files that the conversation has seen, the newest first."""
        with self._lock:
            views = self._sessions.get(session)
            return list(reversed(views.files)) if views is not None else []

    def take_stale_views(self, session: str) -> list[StaleView]:
        """What has changed since it was seen; it is said once."""
        changed = self._find_changed(session)
        with self._lock:
            if changed and (views := self._sessions.get(session)) is not None:
                views.files.update(changed)
                views.is_stored = False
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
                views.is_stored &= not views.pending_stamps
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

    def take_stored_form(self, session: str) -> str | None:
        """All of a session as text, if it has changed since it was taken last."""
        with self._lock:
            views = self._sessions.get(session)
            if views is None or views.is_stored:
                return None
            views.is_stored = True
            rows = [
                [str(path), views.known_stamps.get(path), last, *views.digests.get(path, ())]
                for path, last in views.files.items()
            ]
        return json.dumps(rows, separators=(",", ":"))

    def restore(self, session: str, text: str | None) -> None:
        """What `take_stored_form` returned before a restart, unless the session is in memory."""
        if text is None or session in self._sessions:
            return
        views = _SessionViews(is_stored=True)
        for name, view_stamp, last, *digest in json.loads(text):
            path = Path(name)
            views.files[path] = _stamp_of(last)
            if view_stamp is not None:
                views.known_stamps[path] = _stamp_of(view_stamp)
            if digest:
                views.digests[path] = (_stamp_of(digest[0]), str(digest[1]))
        with self._lock:
            _put_newest(self._sessions, session, views, SESSIONS)

    def _find_changed(self, session: str) -> dict[Path, Stamp]:
        """The disk is asked without the lock: one that hangs must not hold up the others."""
        with self._lock:
            views = self._sessions.get(session)
            if views is None:
                return {}
            earlier, digests = dict(views.files), dict(views.digests)
        now = {path: stamp(path) for path in earlier}
        changed = {path: new_stamp for path, new_stamp in now.items() if new_stamp != earlier[path]}
        same = {
            path: one
            for path, one in changed.items()
            if _is_same(path, one, earlier[path], digests)
        }
        new_digests = {
            path: (one, digest)
            for path, one in now.items()
            if path not in changed and digests.get(path, (None,))[0] != one
            if (digest := _digest(path, one))
        }
        with self._lock:
            views.digests |= new_digests
            views.is_stored &= not (new_digests or same)
            for path, new_stamp in same.items():
                self._take_for_same(views, path, earlier[path], new_stamp)
            # What was shown anew meanwhile has not changed since.
            return {
                path: now
                for path, now in changed.items()
                if path not in same and views.files.get(path) == earlier[path]
            }

    def _take_for_same(
        self, views: _SessionViews, path: Path, earlier: Stamp, new_stamp: Stamp
    ) -> None:
        """The file was written anew with the content that it had."""
        if views.files.get(path) == earlier:
            views.files[path] = new_stamp
        if views.known_stamps.get(path) == earlier:
            views.known_stamps[path] = new_stamp
        if path in views.digests:
            views.digests[path] = (new_stamp, views.digests[path][1])

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


def _digest_of_text(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _stamp_of(numbers: Sequence[Any]) -> Stamp:
    mtime_ns, size, inode = map(int, numbers)
    return (mtime_ns, size, inode)


def _is_same(
    path: Path, new_stamp: Stamp, earlier: Stamp, digests: Mapping[Path, tuple[Stamp, str]]
) -> bool:
    """Whether a file with other times still holds what it held."""
    digest_stamp, digest = digests.get(path, (None, ""))
    is_comparable = digest_stamp == earlier and new_stamp[1] == earlier[1]
    return is_comparable and _digest(path, new_stamp) == digest


def _digest(path: Path, found_stamp: Stamp) -> str:
    """Of the content, if it is that of the stamp; '' of what is no file, or too large."""
    if not 0 < found_stamp[1] <= DIGEST_LIMIT_BYTES:
        return ""
    try:
        content = read_regular(path, DIGEST_LIMIT_BYTES + 1, follow_links=False)
    except OSError:
        return ""
    # What was written meanwhile is told by its times.
    is_it = stamp(path) == found_stamp and len(content) == found_stamp[1]
    return hashlib.blake2b(content, digest_size=16).hexdigest() if is_it else ""


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
