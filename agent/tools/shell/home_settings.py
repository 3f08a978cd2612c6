"""The settings that earlier commands have left in the home of a conversation's commands."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agent.records import frozen

# Programs take no settings from these: caches that change with every use, and programs.
_PASSED_OVER = frozenset(
    {
        *(".cache", ".local/bin"),
        *(".npm/_cacache", ".npm/_logs", ".npm/_update-notifier-last-checked"),
        *(".cargo/registry", ".cargo/.global-cache", ".cargo/.package-cache"),
        *(".gradle/caches", ".gradle/daemon"),
    }
)
# Deeper lie data and caches; what Python starts with lies in its packages (`*.pth`).
_DEPTH, _DEEPER = 3, {".local/lib": 5}
_MOST_ENTRIES = 2000
# Of further contents, the number, the size and the times count.
_HASHED_BYTES, _ALL_HASHED_BYTES = 256_000, 4_000_000
_MOST_NAMES, _NAME_CHARS = 30, 80
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@frozen
class HomeSettings:
    """Files of a home from which programs may take settings.

    `names` are for a person, a few of them. `digest` is a hash of all paths and contents, "" where
    there are none. `unbound` names something whose contents the hash can't include, such as a link.
    """

    names: tuple[str, ...] = ()
    digest: str = ""
    unbound: str | None = None


def home_settings(home: Path) -> HomeSettings:
    """Return the settings in `home`, whose parent no command can replace: files whose name begins
    with a dot, and those in such folders, but not deep inside. May block."""
    scan = _Scan()
    try:
        parent = os.open(home.parent, _FOLDER)
    except FileNotFoundError:
        return HomeSettings()
    try:
        scan.visit(parent, home.name, "")
    finally:
        os.close(parent)
    return scan.result()


@frozen
class _Entry:
    """A file, or something else under its name; without `bound` its contents may change at any time
    without a trace in `content`."""

    path: str
    content: str
    bound: bool = True

    @property
    def title(self) -> str:
        path = self.path or "~"
        return _shortened(path if self.bound else f"{path} ({self.content})")


class _Scan:
    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self._visited = self._hashed_bytes = 0

    def visit(self, parent: int, name: str, path: str) -> None:
        """Take in the entry `name` of the open folder `parent`; `path` is "" for the home."""
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                self._visit_folder(parent, name, path)
            elif stat.S_ISREG(status.st_mode):
                self.entries.append(_Entry(path, self._read(parent, name)))
            elif stat.S_ISLNK(status.st_mode):
                target = _readable(os.readlink(name, dir_fd=parent))
                self.entries.append(_Entry(path, f"→ {target}", bound=False))
            else:
                self.entries.append(_Entry(path, "no file", bound=False))
        except FileNotFoundError:
            return
        except OSError:
            self.entries.append(_Entry(path, "closed", bound=False))

    def _visit_folder(self, parent: int, name: str, path: str) -> None:
        depth = path.count("/") + 1 if path else 0
        most = next((n for top, n in _DEEPER.items() if f"{path}/".startswith(f"{top}/")), _DEPTH)
        if depth >= most:
            return
        folder = os.open(name, _FOLDER, dir_fd=parent)
        try:
            for name, inner in self._candidates(folder, path):
                self.visit(folder, name, inner)
        finally:
            os.close(folder)

    def _candidates(self, folder: int, path: str) -> Iterator[tuple[str, str]]:
        with os.scandir(folder) as entries:
            for entry in entries:
                inner = f"{path}/{_readable(entry.name)}" if path else _readable(entry.name)
                if inner in _PASSED_OVER or not inner.startswith("."):
                    continue
                self._visited += 1
                if self._visited > _MOST_ENTRIES:
                    self.entries.append(_Entry("…", "more", bound=False))
                    return
                yield entry.name, inner

    def _read(self, parent: int, name: str) -> str:
        descriptor = os.open(name, _FILE, dir_fd=parent)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            fits = status.st_size <= _HASHED_BYTES and self._hashed_bytes <= _ALL_HASHED_BYTES
            if stat.S_ISREG(status.st_mode) and fits:
                content = file.read(_HASHED_BYTES + 1)
                self._hashed_bytes += len(content)
                return hashlib.sha256(content).hexdigest()
            # No command can set the time of a change.
            return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    def result(self) -> HomeSettings:
        if not self.entries:
            return HomeSettings()
        in_order = sorted(self.entries, key=lambda each: (each.path.count("/"), each.path))
        digest = hashlib.sha256()
        for entry in in_order:
            digest.update(f"{entry.path}\0{entry.content}\0".encode())
        names = list(dict.fromkeys(entry.title for entry in in_order))
        if len(names) > _MOST_NAMES:
            names = [*names[:_MOST_NAMES], f"… (+{len(names) - _MOST_NAMES})"]
        unbound = next((entry.path or "~" for entry in in_order if not entry.bound), None)
        return HomeSettings(tuple(names), digest.hexdigest(), unbound and _shortened(unbound))


def _readable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"
