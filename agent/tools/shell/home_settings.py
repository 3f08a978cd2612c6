"""Fingerprint of the files that earlier commands left in a session's home folder.

Programs load settings, packages and other programs from anywhere in a home folder, so every file is
included, whatever its path.
"""

import hashlib
import json
import os
import stat
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from agent.records import frozen
from agent.security.files.folder_tree import FolderCursor
from agent.security.files.safe_open import LISTED
from agent.security.sandbox.environment import PROGRAMS

# Their program changes these on every run. They have no effect unless reached through a link.
# Logs of npm, which never reads them:
_NPM_LOGS = ".npm/_logs"
# Times of last use of cargo's downloads, to remove the oldest:
_CARGO_USES = ".cargo/.global-cache"
# An npm file whose time records the last check for a newer npm, and a lock file of cargo:
_EMPTY_FILES = (".npm/_update-notifier-last-checked", ".cargo/.package-cache")
_PASSED_OVER = frozenset({_NPM_LOGS, _CARGO_USES, *_EMPTY_FILES})
_PASSED_OVER_PARTS = tuple(tuple(path.split("/")) for path in sorted(_PASSED_OVER))
_PASSED_OVER_DEPTH = 2
MAX_ENTRIES = 60_000
# Processor time: on a busy machine, too, the same files have the same fingerprint.
MAX_SCAN_CPU_S = 2.0
# Small files near the top are hashed by content, because programs rewrite them unchanged.
_HASHED_DEPTH, _HASHED_BYTES, _HASHED_FILES = 3, 64_000, 200
_MAX_NAMES, _NAME_CHARS = 30, 80
_NAME = attrgetter("name")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@frozen
class HomeSettings:
    """Files in a home folder.

    `names` are for display: files, or folders with the number of files in them.
    `digest` is a hash of all files, "" if there are none. `unbound` names a file that the hash
    cannot cover, such as a link that leads out of the folder.
    """

    names: tuple[str, ...] = ()
    digest: str = ""
    unbound: str | None = None


def home_settings(home: Path, seen_as: str, max_entries: int = MAX_ENTRIES) -> HomeSettings:
    """Return the files in `home`, which commands see at `seen_as`.

    No command can replace the parent of `home`. May block.
    """
    scan = _Scan(seen_as, max_entries)
    try:
        parent = os.open(home.parent, LISTED)
    except FileNotFoundError:
        return HomeSettings()
    try:
        folder = os.open(home.name, LISTED, dir_fd=parent)
    except FileNotFoundError:
        return HomeSettings()
    except OSError:
        # A link, a file, or unreadable for Kore.
        return HomeSettings(("~",), "unknown", "~")
    finally:
        os.close(parent)
    try:
        scan.run(folder)
    finally:
        os.close(folder)
    return scan.result()


@dataclass(slots=True)
class _Folder:
    """Folder in the home; `names` lists its files and links, `count` includes all levels."""

    path: str
    names: list[str] = field(default_factory=list)
    folders: list["_Folder"] = field(default_factory=list)
    count: int = 0


class _Unfinished(Exception):
    """The scan found too many entries or took too long."""


class _Scan:
    def __init__(self, seen_as: str, max_entries: int) -> None:
        self._seen_as = seen_as
        self._remaining = max_entries
        self._deadline = time.thread_time() + MAX_SCAN_CPU_S
        self._remaining_hashes = _HASHED_FILES
        self._digest = hashlib.sha256()
        self._top = _Folder("")
        self._unbound: str | None = None

    def run(self, folder: int) -> None:
        with FolderCursor(folder) as cursor:
            above: list[tuple[_Folder, Iterator[str]]] = []
            here, folders = self._top, iter(self._list(cursor, self._top))
            try:
                while True:
                    name = next(folders, None)
                    if name is not None:
                        inner = _Folder(f"{here.path}{name}/")
                        try:
                            cursor.down(name)
                        except FileNotFoundError:
                            continue
                        except OSError:
                            self._add_unbound(here, name, "closed")
                            here.count += 1
                            continue
                        above.append((here, folders))
                        here, folders = inner, iter(self._list(cursor, inner))
                        continue
                    if not above:
                        return
                    inner = here
                    here, folders = above.pop()
                    cursor.up()
                    if len(cursor.names) != len(above):
                        raise _Unfinished
                    _include(here, inner)
            except _Unfinished:
                for outer, _ in reversed(above):
                    _include(outer, here)
                    here = outer
                self._unbound = "…"

    def _list(self, cursor: FolderCursor, folder: _Folder) -> list[str]:
        """Add the entries of the open folder, and return its subfolders."""
        folders, lines = [], [folder.path]
        depth = len(cursor.names)
        is_deep = depth >= _HASHED_DEPTH
        try:
            with os.scandir(cursor.folder) as entries:
                in_order = sorted(entries, key=_NAME)
                self._remaining -= len(in_order)
                if self._remaining < 0 or time.thread_time() > self._deadline:
                    raise _Unfinished
                for entry in in_order:
                    name = entry.name
                    try:
                        if depth < _PASSED_OVER_DEPTH and _is_passed_over(folder.path, entry):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(name)
                        elif is_deep and entry.is_file(follow_symlinks=False):
                            lines.append(f"{name}\0{_stamp(entry.stat(follow_symlinks=False))}")
                            folder.names.append(name)
                        else:
                            lines.append(f"{name}\0{self._state(cursor, folder, entry)}")
                    except FileNotFoundError:
                        continue
        except OSError:
            self._add_unbound(folder, ".", "closed")
        folder.count = len(folder.names)
        if len(lines) > 1:
            self._digest.update(os.fsencode("\0\0".join([*lines, ""])))
        return folders

    def _state(self, cursor: FolderCursor, folder: _Folder, entry: os.DirEntry[str]) -> str:
        """Return a string that changes whenever the entry changes."""
        name, info, depth = entry.name, entry.stat(follow_symlinks=False), len(cursor.names)
        if stat.S_ISREG(info.st_mode):
            folder.names.append(name)
            if depth < _HASHED_DEPTH and info.st_size <= _HASHED_BYTES and self._remaining_hashes:
                self._remaining_hashes -= 1
                return f"{info.st_mode} {_hash(name, cursor.folder)}"
            return _stamp(info)
        state = "no file"
        if stat.S_ISLNK(info.st_mode):
            target = os.readlink(name, dir_fd=cursor.folder)
            state = f"→ {target}"
            if self._is_bound(target, folder):
                folder.names.append(f"{name} ({state})")
                return state
        self._add_unbound(folder, name, state)
        return state

    def _is_bound(self, target: str, folder: _Folder) -> bool:
        """Return whether commands cannot change the target of a link.

        Also true for a target in this home, because the scan covers it too.
        """
        parts = target.split("/")
        if target.startswith("/"):
            if ".." in parts:
                return False
            if not f"{target}/".startswith(f"{self._seen_as}/"):
                return f"/{parts[1]}" in PROGRAMS
            return _is_looked_at(target[len(self._seen_as) :].split("/"))
        above = folder.path.split("/")[:-1]
        up = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
        if up > len(above) or ".." in parts[up:]:
            return False
        return _is_looked_at([*above[: len(above) - up], *parts[up:]])

    def _add_unbound(self, folder: _Folder, name: str, state: str) -> None:
        folder.names.append(f"{name} ({state})")
        self._unbound = self._unbound or f"{folder.path}{name}"

    def result(self) -> HomeSettings:
        if not self._top.count and self._unbound is None:
            return HomeSettings()
        # An incomplete scan of a home may end at a different entry each time.
        digest = "unknown" if self._unbound == "…" else self._digest.hexdigest()
        names = tuple(map(_readable, _names(self._top)))
        return HomeSettings(names, digest, self._unbound and _readable(self._unbound))


def _is_passed_over(folder: str, entry: os.DirEntry[str]) -> bool:
    path = f"{folder}{entry.name}"
    if path not in _PASSED_OVER:
        return False
    info = entry.stat(follow_symlinks=False)
    if path == _NPM_LOGS:
        return stat.S_ISDIR(info.st_mode)
    return stat.S_ISREG(info.st_mode) and (path == _CARGO_USES or not info.st_size)


def _is_looked_at(parts: list[str]) -> bool:
    """Return whether the hash includes all files at and below a path in the home."""
    at = tuple(part for part in parts if part not in ("", "."))
    return all(at[: len(path)] != path[: len(at)] for path in _PASSED_OVER_PARTS)


def _include(above: _Folder, inner: _Folder) -> None:
    if inner.count:
        above.folders.append(inner)
        above.count += inner.count


def _stamp(info: os.stat_result) -> str:
    """Return the stamp of a file.

    Every change of the file, its mode or its times sets the change time (ctime), which commands
    cannot set.
    """
    return f"{info.st_ino} {info.st_size} {info.st_ctime_ns}"


def _hash(name: str, folder: int) -> str:
    descriptor = os.open(name, _FILE, dir_fd=folder)
    with open(descriptor, "rb") as file:
        return hashlib.sha256(file.read(_HASHED_BYTES + 1)).hexdigest()


def _names(top: _Folder) -> list[str]:
    """Return names for all files, expanding upper folders first and counting large folders."""
    names = list(top.names)
    pending = deque(top.folders)
    counted_folders: list[str] = []
    while pending:
        folder = pending.popleft()
        name_count = len(names) + len(counted_folders) + len(pending)
        if name_count + len(folder.names) + len(folder.folders) <= _MAX_NAMES:
            names += [f"{folder.path}{name}" for name in folder.names]
            pending.extend(folder.folders)
        else:
            counted_folders.append(f"{folder.path}* ({folder.count:,})")
    names += counted_folders
    if len(names) > _MAX_NAMES:
        names[_MAX_NAMES:] = [f"… (+{len(names) - _MAX_NAMES})"]
    return names


def _readable(name: str) -> str:
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return text if len(text) <= _NAME_CHARS else f"{text[: _NAME_CHARS - 1]}…"


# Record of changes by allowed commands: a build fills its caches on every run, and its approval
# must stay valid. Changes by any other command invalidate the approval.
_HOME_CHANGES_NAME = "home.json"


def answered_digest(folder: Path, home: HomeSettings) -> str:
    """Return the digest that approvals are bound to.

    This is the digest of the home before the latest changes by allowed commands. `folder` belongs
    to the session and is hidden from commands. May block.
    """
    try:
        record = json.loads((folder / _HOME_CHANGES_NAME).read_text("utf-8"))
        return str(record["counts_as"]) if record["found"] == home.digest else home.digest
    except (OSError, ValueError, LookupError, TypeError):
        return home.digest


def record_allowed_changes(folder: Path, before: HomeSettings, after: HomeSettings) -> None:
    """Keep approvals for the home `before` an allowed command valid for the home `after` it.

    No other command may have run meanwhile. If the record cannot be written, the approvals become
    invalid. May block.
    """
    if before.unbound is not None or after.unbound is not None or before.digest == after.digest:
        return
    record = {"found": after.digest, "counts_as": answered_digest(folder, before)}
    with suppress(OSError):
        part = folder / f"{_HOME_CHANGES_NAME}.part"
        part.write_text(json.dumps(record), "utf-8")
        part.replace(folder / _HOME_CHANGES_NAME)
