"""Cache of file tags that survives restarts, in a folder that only Kore writes.

An entry is valid only while its file's modification time, size and inode are unchanged.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from agent.code.symbols.tags import FileTags
from agent.errors import ToolError
from agent.security.files import file_io
from agent.security.files.private_folder import make_private_folder
from agent.tools.file_views import Stamp

log = logging.getLogger(__name__)

KnownTags = dict[Path, tuple[Stamp, FileTags]]

# Increment when the same text yields different tags.
_VERSION = 1
MAX_BYTES = 64_000_000
MAX_PROJECTS = 20


class TagCache:
    """Cache with one file per project in `folder`; a missing or damaged file counts as empty."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, project: Path) -> KnownTags:
        """Return the cached tags of a project. Blocks."""
        try:
            data = file_io.read(self._path(project), MAX_BYTES)
            first, *lines = data.splitlines()
            if json.loads(first) != _header(project):
                return {}
            return dict(_entry(project, line) for line in lines)
        except ToolError:
            return {}
        except (ValueError, TypeError, RecursionError) as exc:
            log.warning("the cached map of %s cannot be read: %s", project, exc)
            return {}

    def save(self, project: Path, tags_by_path: Mapping[Path, tuple[Stamp, FileTags]]) -> None:
        """Save the tags that fit into the size limit. Blocks."""
        lines = [json.dumps(_header(project)).encode()]
        left_bytes = MAX_BYTES - len(lines[0])
        for path, (stamp, tags) in tags_by_path.items():
            entry = [os.path.relpath(path, project), stamp, tags.to_json()]
            line = json.dumps(entry, separators=(",", ":")).encode()
            left_bytes -= len(line) + 1
            if left_bytes < 0:
                break
            lines.append(line)
        try:
            make_private_folder(self._folder)
            self._make_room(self._path(project))
            file_io.write_atomic(self._path(project), b"\n".join(lines), 0o600)
        except (OSError, ToolError) as exc:
            log.warning("the map of %s was not cached: %s", project, exc)

    def _make_room(self, path: Path) -> None:
        """Remove the files that were written longest ago."""
        other_files = [
            cache_file for cache_file in self._folder.glob("*.jsonl") if cache_file != path
        ]
        other_files.sort(key=lambda cache_file: cache_file.lstat().st_mtime_ns, reverse=True)
        for cache_file in other_files[MAX_PROJECTS - 1 :]:
            cache_file.unlink(missing_ok=True)

    def _path(self, project: Path) -> Path:
        return self._folder / f"{hashlib.sha256(os.fsencode(project)).hexdigest()[:16]}.jsonl"


def _header(project: Path) -> list[object]:
    return [_VERSION, os.fspath(project)]


def _entry(project: Path, line: bytes) -> tuple[Path, tuple[Stamp, FileTags]]:
    name, (mtime_ns, size, inode), tags = json.loads(line)
    return project / name, ((int(mtime_ns), int(size), int(inode)), FileTags.from_json(tags))
