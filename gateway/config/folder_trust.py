"""Project files that the owner trusts, each bound to its content."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.security.files.safe_open import open_regular
from agent.security.taint.worktree_record import WorktreeRecord
from gateway.config.atomic_write import write_atomic
from gateway.config.json_files.document import SIZE_LIMIT_BYTES, read_object

# Files that a folder may contain for Kore, highest priority first.
PROJECT = (
    *(".kore/config.json", ".kode.json", ".kodax/config.local.json", ".mcprc", ".mcp.json"),
    *(".kore/hooks.json", ".claude/settings.json", ".claude/settings.local.json"),
)
FILE = "trust.json"


def project_files_in(folder: Path) -> list[Path]:
    """Return the project files of a folder that have content for Kore."""
    paths = [folder / name for name in PROJECT if (folder / name).is_file()]
    return [path for path in paths if mentions_hooks(path, content(path))]


def mentions_hooks(path: Path, raw: bytes | None) -> bool:
    """Return False for settings of another program without hooks, the only part that Kore reads."""
    return path.parent.name != ".claude" or b'"hooks"' in (raw or b"")


def content(path: Path) -> bytes | None:
    """Return a file's content; None if it is unreadable or larger than the limit."""
    try:
        with open_regular(path) as file:
            data = file.read(SIZE_LIMIT_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= SIZE_LIMIT_BYTES else None


def digest(path: Path) -> str:
    """Return the digest of a file's content; '' for an unreadable file."""
    data = content(path)
    return "" if data is None else digest_of(data)


def digest_of(data: bytes) -> str:
    """Return the digest of a file's bytes."""
    return hashlib.sha256(data).hexdigest()


def read_trusted(path: Path, home: Path) -> bytes | None:
    """Return the file's content if it is unchanged since it was trusted.

    In a recorded worktree, content that was trusted in the main checkout counts as well. Raises
    `ConfigError`. Callers use these bytes and do not open the file again, because it may have
    changed since.
    """
    digests = read_object(home / FILE) or {}
    data = content(path) if digests else None
    if data is None:
        return None
    real, current_digest = path.resolve(), digest_of(data)
    if digests.get(str(real)) == current_digest:
        return data
    counterpart = WorktreeRecord(home).in_repository(real)
    is_same = counterpart is not None and digests.get(str(counterpart)) == current_digest
    return data if is_same else None


def is_trusted(path: Path, home: Path) -> bool:
    """Return whether the file is trusted and unchanged. Raises `ConfigError`."""
    return read_trusted(path, home) is not None


def trust(paths: Iterable[Path], home: Path) -> None:
    """Trust these files with their current content. Raises `ConfigError`."""
    remember({path: digest(path) for path in paths}, home)


def remember(digests: Mapping[Path, str], home: Path) -> None:
    """Trust files as long as their content has this digest. Raises `ConfigError`."""
    _write(
        {**_load_digests(home), **{str(path.resolve()): item for path, item in digests.items()}},
        home,
    )


def distrust(folder: Path, home: Path) -> int:
    """Forget the files of a folder and return their number. Raises `ConfigError`."""
    digests = _load_digests(home)
    removed = {str((folder / name).resolve()) for name in PROJECT} & set(digests)
    _write(
        {path: file_digest for path, file_digest in digests.items() if path not in removed}, home
    )
    return len(removed)


def _load_digests(home: Path) -> Mapping[str, str]:
    return read_object(home / FILE) or {}


def _write(digests: Mapping[str, str], home: Path) -> None:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(home / FILE, json.dumps(dict(digests), indent=2, ensure_ascii=False) + "\n")
