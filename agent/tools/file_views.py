"""File views of each conversation, to report files that changed since they were seen.

The views are in memory and are stored with the conversation (`take_stored_form`).
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

from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.safe_open import read_regular
from agent.text.visible import escape_line

K = TypeVar("K")
V = TypeVar("V")
# Modification time, size and inode, which differ whenever the content changed.
Stamp = tuple[int, int, int]

Knowledge = Literal["none", "old", "current"]

# Files up to this size are compared by digest if their times differ; larger ones by times only.
DIGEST_LIMIT_BYTES = 1_000_000

MAX_SESSIONS = 128
MAX_FILES = 64
MAX_WRITES = 1024


@frozen
class StaleView:
    """File that changed since it was seen, and the conversation that changed it."""

    path: Path
    by: Literal["user", "agent", "tool"]


@runtime_checkable
class FileViewStore(Protocol):
    """History that also stores the file views of its sessions as text."""

    async def file_views(self, session: str) -> str | None: ...

    async def set_file_views(self, session: str, text: str) -> None: ...


@dataclass(slots=True)
class _SessionViews:
    """File views of one conversation.

    `known_stamps` are the stamps of files when they were last shown or written; `files` their
    stamps when the model was last informed, and `digests` the digests of that content.
    `pending_stamps` are reported to the next turn; `reported_views` still have to be sent as
    events. `is_stored`: the stored form is current.
    """

    files: OrderedDict[Path, Stamp] = field(default_factory=OrderedDict)
    known_stamps: dict[Path, Stamp] = field(default_factory=dict)
    pending_stamps: dict[Path, Stamp] = field(default_factory=dict)
    reported_views: list[StaleView] = field(default_factory=list)
    digests: dict[Path, tuple[Stamp, str]] = field(default_factory=dict)
    is_stored: bool = False
    # Digests of unsaved texts shown from an editor. They are not stored.
    unsaved_digests: OrderedDict[Path, bytes] = field(default_factory=OrderedDict)


class FileViews:
    """File views of all conversations of an agent. Thread-safe."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, _SessionViews] = OrderedDict()
        self._writers: OrderedDict[Path, tuple[str, Stamp]] = OrderedDict()
        self._lock = threading.Lock()

    def record_view(self, session: str, path: Path, file_stamp: Stamp) -> None:
        """Record that the conversation saw the file when it had this stamp."""
        with self._lock:
            views = self._sessions.get(session) or _SessionViews()
            _put_newest(self._sessions, session, views, MAX_SESSIONS)
            _put_newest(views.files, path, file_stamp, MAX_FILES)
            views.known_stamps[path] = file_stamp
            views.is_stored = False
            if len(views.known_stamps) > 2 * MAX_FILES:
                views.known_stamps = {
                    path: views.known_stamps[path]
                    for path in views.files
                    if path in views.known_stamps
                }
            for dropped_path in views.digests.keys() - views.files.keys():
                del views.digests[dropped_path]

    def knowledge(self, session: str, path: Path) -> Knowledge:
        """Return whether the conversation has seen the file, and whether in its current state."""
        now = stamp(path)
        with self._lock:
            views = self._sessions.get(session)
            last_stamp = views.known_stamps.get(path) if views else None
        if last_stamp is None:
            return "none"
        return "current" if last_stamp == now else "old"

    def record_unsaved(self, session: str, path: Path, text: str) -> None:
        """Record that the conversation was shown this unsaved text of a file."""
        with self._lock:
            if (views := self._sessions.get(session)) is not None:
                _put_newest(views.unsaved_digests, path, _digest_of_text(text), MAX_FILES)

    def has_seen_unsaved(self, session: str, path: Path, text: str) -> bool:
        """Return whether the conversation was shown exactly this text of the file."""
        with self._lock:
            views = self._sessions.get(session)
            digest = views.unsaved_digests.get(path) if views is not None else None
        return digest == _digest_of_text(text)

    def record_write(self, session: str, path: Path) -> None:
        """Record that a tool of this conversation wrote the file, which counts as a view."""
        new_stamp = stamp(path)
        self.record_view(session, path, new_stamp)
        with self._lock:
            _put_newest(self._writers, path, (session, new_stamp), MAX_WRITES)

    def writer(self, path: Path, file_stamp: Stamp) -> str | None:
        """Return the conversation whose tool wrote the current content, if that is known."""
        with self._lock:
            session, last_stamp = self._writers.get(path, (None, None))
            return session if last_stamp == file_stamp else None

    def has_any(self, session: str) -> bool:
        """Return whether the conversation has seen any file.

        If not, no file has to be compared with the disk.
        """
        with self._lock:
            return session in self._sessions

    def seen_files(self, session: str) -> list[Path]:
        """Return the files that the conversation has seen, newest first."""
        with self._lock:
            views = self._sessions.get(session)
            return list(reversed(views.files)) if views is not None else []

    def take_stale_views(self, session: str) -> list[StaleView]:
        """Return the files that changed since they were seen; each change is returned once."""
        changed = self._find_changed(session)
        with self._lock:
            if changed and (views := self._sessions.get(session)) is not None:
                views.files.update(changed)
                views.is_stored = False
            return [
                self._stale_view(session, path, new_stamp) for path, new_stamp in changed.items()
            ]

    def facts(self, session: str) -> Sequence[str]:
        """Return a note about stale views for a turn; `mark_reported` confirms its delivery."""
        changed = self._find_changed(session)
        with self._lock:
            if (views := self._sessions.get(session)) is not None:
                views.pending_stamps = changed
        return [describe_stale_files(list(changed))] if changed else ()

    def mark_reported(self, session: str) -> None:
        """Record that the turn with the note from `facts` has begun."""
        with self._lock:
            if (views := self._sessions.get(session)) is not None:
                views.is_stored &= not views.pending_stamps
                views.files.update(views.pending_stamps)
                reported, views.pending_stamps = views.pending_stamps, {}
                views.reported_views += [
                    self._stale_view(session, *item) for item in reported.items()
                ]
                del views.reported_views[:-MAX_FILES]

    def take_reported_views(self, session: str) -> list[StaleView]:
        """Return the stale views reported to this turn, as a source of events; each only once."""
        with self._lock:
            views = self._sessions.get(session)
            if views is None:
                return []
            noticed, views.reported_views = views.reported_views, []
            return noticed

    def end(self, session: str) -> None:
        """Forget the files of a session that has ended."""
        with self._lock:
            self._sessions.pop(session, None)

    def take_stored_form(self, session: str) -> str | None:
        """Return the views of a session as text if they changed since the last call."""
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
        """Restore the text of `take_stored_form` unless the session is in memory."""
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
            _put_newest(self._sessions, session, views, MAX_SESSIONS)

    def _find_changed(self, session: str) -> dict[Path, Stamp]:
        """Return the new stamps of the files that changed since they were seen.

        The disk is read without the lock: a slow disk must not block other conversations.
        """
        with self._lock:
            views = self._sessions.get(session)
            if views is None:
                return {}
            earlier, digests = dict(views.files), dict(views.digests)
        now = {path: stamp(path) for path in earlier}
        changed = {path: new_stamp for path, new_stamp in now.items() if new_stamp != earlier[path]}
        same = {
            path: state
            for path, state in changed.items()
            if _is_same(path, state, earlier[path], digests)
        }
        new_digests = {
            path: (state, digest)
            for path, state in now.items()
            if path not in changed and digests.get(path, (None,))[0] != state
            if (digest := _digest(path, state))
        }
        with self._lock:
            views.digests |= new_digests
            views.is_stored &= not (new_digests or same)
            for path, new_stamp in same.items():
                self._treat_as_unchanged(views, path, earlier[path], new_stamp)
            # A file that was shown again in the meantime is not stale.
            return {
                path: now
                for path, now in changed.items()
                if path not in same and views.files.get(path) == earlier[path]
            }

    def _treat_as_unchanged(
        self, views: _SessionViews, path: Path, earlier: Stamp, new_stamp: Stamp
    ) -> None:
        """Treat a file that was rewritten with the same content as unchanged."""
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
    """Return the stamp of a file, which changes with its content; zeros for a missing file."""
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
    """Return whether a file with a different stamp still has the same content."""
    digest_stamp, digest = digests.get(path, (None, ""))
    is_comparable = digest_stamp == earlier and new_stamp[1] == earlier[1]
    return is_comparable and _digest(path, new_stamp) == digest


def _digest(path: Path, file_stamp: Stamp) -> str:
    """Return the digest of the content if the stamp is current.

    Return "" for a file that is too large or not regular.
    """
    if not 0 < file_stamp[1] <= DIGEST_LIMIT_BYTES:
        return ""
    try:
        content = read_regular(path, DIGEST_LIMIT_BYTES + 1, follow_links=False)
    except OSError:
        return ""
    # A change during the read also changes the stamp.
    is_current = stamp(path) == file_stamp and len(content) == file_stamp[1]
    return hashlib.blake2b(content, digest_size=16).hexdigest() if is_current else ""


def describe_stale_files(paths: Sequence[Path]) -> str:
    """Return the note about stale files for the model."""
    return render_prompt("stale", files=", ".join(escape_line(str(path)) for path in paths))


def _put_newest(entries: OrderedDict[K, V], key: K, value: V, limit: int) -> None:
    """Store the entry as the newest; drop the oldest entries beyond `limit`."""
    entries[key] = value
    entries.move_to_end(key)
    while len(entries) > limit:
        entries.popitem(last=False)
