"""Resolution of the model's paths to real paths that a tool may use, and comparison of names."""

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from agent.errors import ToolError
from agent.text.visible import hidden_character

_SHORT = re.compile(r"([^~]{1,6})~\d+(\.[^.]{0,3})?")


@lru_cache(maxsize=4096)
def normalize_filename(name: str) -> str:
    """Map all names that some file system treats as equal to the same name.

    Normalizes case, composed and full-width characters, ignored characters (HFS+), trailing dots
    and spaces, and drops the part after a colon (Windows). Use it only to reject names; code that
    allows names compares them exactly.
    """
    text = name
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    return text.lower().split(":")[0].rstrip(" .") or name


def folded_path(path: Path) -> Path:
    """Return the path with each component normalized."""
    return Path(*(part if part == path.anchor else normalize_filename(part) for part in path.parts))


def same_names(names: Iterable[str], expected: Iterable[str]) -> bool:
    """Return whether the names equal the expected names or their short forms such as `GIT~1`."""
    return all(
        normalize_filename(name) == normalize_filename(other) or _is_short(name, other)
        for name, other in zip(names, expected, strict=True)
    )


def _is_short(name: str, full_name: str) -> bool:
    if "~" not in name or (match := _SHORT.fullmatch(normalize_filename(name))) is None:
        return False
    return match[1] == normalize_filename(full_name).replace(".", "")[:6]


# Files that represent kernel state: secrets of processes, endless or blocking streams.
KERNEL_FOLDERS = (Path("/proc"), Path("/sys"), Path("/dev"))


def resolve_in_workspace(
    path: str,
    workspace: Path,
    *,
    restrict: bool,
    blocked: Sequence[str] = (),
    start: Path | None = None,
) -> Path:
    """Return the real path of `path`, with links and `..` resolved; it need not exist.

    Relative paths start at `start`, by default `workspace`, a real path that is not resolved again:
    if a link has replaced it, the result is outside. With `restrict`, a path that ends outside the
    workspace is rejected; a path that leaves it and returns is allowed. `blocked` contains
    components, or sequences of them (`node_modules/.cache`), that no path may contain. A caller
    that opens the result must not follow links (as in `agent.security.files.file_io`), or a swapped
    folder redirects it.

    Raises ToolError with a message for the model.
    """
    root = Path(os.path.abspath(workspace))
    base = root if start is None else start
    unresolved = Path(os.path.normpath(base / _check_spelling(path, restrict)))
    try:
        real = Path(os.path.realpath(base / _check_spelling(path, restrict)))
        kind = _kind(real)
    except (OSError, ValueError) as exc:
        raise ToolError(f"The path {quote_path(path)} cannot be used: {_reason(exc)}.") from exc
    if restrict and not real.is_relative_to(root):
        raise ToolError(
            f"{quote_path(path)} leads outside the workspace; only paths inside {root} may be used."
        )
    for folder in KERNEL_FOLDERS:
        if real.is_relative_to(folder) and not root.is_relative_to(folder):
            raise ToolError(f"{quote_path(path)} is in {folder}, which contains no ordinary files.")
    _refuse_hidden(real.relative_to(root) if real.is_relative_to(root) else real, path)
    for candidate in (real, unresolved):
        if entry := blocked_entry(candidate, root, blocked):
            raise ToolError(f"{quote_path(path)} is blocked: {entry} is in security.blocked_paths.")
    if kind not in ("file", "folder", "nothing"):
        raise ToolError(f"{quote_path(path)} is a {kind}, not an ordinary file or folder.")
    return real


def blocked_entry(path: Path, root: Path, blocked: Sequence[str]) -> str | None:
    """Return the entry of `blocked` in a real path, or None; inside `root`, only below it."""
    inside = path.relative_to(root) if path.is_relative_to(root) else path
    parts = inside.parts
    for entry in blocked:
        blocked_parts = Path(entry).parts
        spans = (
            parts[i : i + len(blocked_parts)] for i in range(len(parts) - len(blocked_parts) + 1)
        )
        if blocked_parts and any(same_names(span, blocked_parts) for span in spans):
            return entry
    return None


def quote_path(path: str) -> str:
    """Return a path for use in a message: quoted, printable and of limited length."""
    text = path if len(path) <= 200 else path[:200] + "…"
    return repr(text)


def _check_spelling(path: str, restrict: bool) -> str:
    if not path:
        raise ToolError("The path is empty; give a path such as notes.md.")
    if "\0" in path:
        raise ToolError("The path contains a NUL character; remove it.")
    _refuse_hidden(Path(path), path)
    if path == "~" or path.startswith("~/"):
        if restrict:
            raise ToolError(
                f"{quote_path(path)} is in the home folder; use a path relative to the workspace."
            )
        return os.path.expanduser(path)
    return path


def _refuse_hidden(path: Path, given_path: str) -> None:
    # A question or a listing would show a name that differs from the real one.
    if character := hidden_character(str(path)):
        raise ToolError(
            f"The path {quote_path(given_path)} contains the character {character}, "
            "which is invisible; rename the file to use it."
        )


def _kind(real: Path) -> str:
    try:
        mode = os.lstat(real).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    kinds = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "folder",
        stat.S_IFLNK: "link that leads in a circle",
        stat.S_IFIFO: "pipe",
        stat.S_IFSOCK: "socket",
    }
    return kinds.get(stat.S_IFMT(mode), "device")


def _reason(exc: Exception) -> str:
    text = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return text[:1].lower() + text[1:]


MEMORY_FOLDER = "memory"

INBOX_FOLDER = "inbox"


def user_inbox_dir(workspace: Path, memory: Path) -> Path:
    """Return the inbox of the person with this memory file; both have the same readers.

    Raises `ValueError` if the memory file is not in the workspace's memory folder.
    """
    return workspace / INBOX_FOLDER / memory.parent.relative_to(workspace / MEMORY_FOLDER)
