"""Which files of projects the owner has said to trust, each by what it holds."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.security.files.regular_file import open_regular
from gateway.config.atomic_write import write_atomic
from gateway.config.json_files.document import SIZE_LIMIT_BYTES, read_object

# What a folder may bring along for Kore, the highest first.
PROJECT = (
    *(".kore/config.json", ".kode.json", ".kodax/config.local.json", ".mcprc", ".mcp.json"),
    *(".kore/hooks.json", ".claude/settings.json", ".claude/settings.local.json"),
)
FILE = "trust.json"


def project_files_in(folder: Path) -> list[Path]:
    """Those of them that are there, and hold anything that Kore would use."""
    paths = [folder / name for name in PROJECT if (folder / name).is_file()]
    return [path for path in paths if mentions_hooks(path, content(path))]


def mentions_hooks(path: Path, raw: bytes | None) -> bool:
    """False for settings of another program without hooks: nothing else of them is read."""
    return path.parent.name != ".claude" or b'"hooks"' in (raw or b"")


def content(path: Path) -> bytes | None:
    """What a file holds; None for one that cannot be read, or is larger than any that would be."""
    try:
        with open_regular(path) as file:
            data = file.read(SIZE_LIMIT_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= SIZE_LIMIT_BYTES else None


def digest(path: Path) -> str:
    """Of what a file holds; '' for one that cannot be read."""
    data = content(path)
    return "" if data is None else digest_of(data)


def digest_of(data: bytes) -> str:
    """Of what was read."""
    return hashlib.sha256(data).hexdigest()


def read_trusted(path: Path, home: Path) -> bytes | None:
    """What the file holds, if it is as it was when it was trusted. Raises `ConfigError`.

    A caller reads these bytes and does not open the file again: it may be another by then.
    """
    digests = read_object(home / FILE) or {}
    data = content(path) if digests else None
    return (
        data if data is not None and digests.get(str(path.resolve())) == digest_of(data) else None
    )


def is_trusted(path: Path, home: Path) -> bool:
    """Whether it is so. Raises `ConfigError`."""
    return read_trusted(path, home) is not None


def trust(paths: Iterable[Path], home: Path) -> None:
    """Remember these files as they are. Raises `ConfigError`."""
    remember({path: digest(path) for path in paths}, home)


def remember(digests: Mapping[Path, str], home: Path) -> None:
    """Trust files that hold what has this digest. Raises `ConfigError`."""
    _write(
        {**_load_digests(home), **{str(path.resolve()): one for path, one in digests.items()}}, home
    )


def distrust(folder: Path, home: Path) -> int:
    """Forget the configuration of a folder; how many files there were. Raises `ConfigError`."""
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
