"""Cached reading of files for the system prompt; a file is read again only after a change."""

import io
import os
from pathlib import Path
from stat import S_ISREG
from typing import IO

from agent.records import frozen
from agent.security.files.safe_open import open_regular_beneath
from agent.security.taint.file_marks import FolderTimes, MarkLevel, OpenFileMark, opened_level

MAX_CHARS = 20_000
_MAX_FILES = 64
_Key = tuple[int, int, int, int]


@frozen
class PromptText:
    """Text of a file and the level of its mark at the time of reading.

    For a file longer than `MAX_CHARS`, `text` is only the beginning, and `newest` contains its last
    lines.
    """

    text: str = ""
    level: MarkLevel = "none"
    newest: str = ""


@frozen
class _CachedText:
    key: _Key
    text: str
    newest: str
    mark: OpenFileMark


class PromptFiles:
    """Reader for prompt files with a cache.

    Text and mark are read through one descriptor, so that they belong together even if the file is
    replaced. Both are cached by the file's identity and its ctime, which no command can choose.
    """

    def __init__(self) -> None:
        self._cache: dict[str, _CachedText] = {}

    def read(self, path: str, times: FolderTimes | None = None) -> PromptText:
        """Return the usable text of the file, and slightly more if the file is longer.

        Empty if there is no regular file, or if the path contains a link. `times`: see
        `mark_level`.
        """
        cached = self._find(path)
        if cached is None:
            return PromptText()
        level = opened_level(path, cached.mark, {} if times is None else times)
        return PromptText(cached.text, level, cached.newest)

    def read_text(self, path: str) -> str:
        """Return the text alone, for uses that do not depend on the mark."""
        cached = self._find(path)
        return "" if cached is None else cached.text

    def _find(self, path: str) -> _CachedText | None:
        try:
            info = os.lstat(path)
            cached = self._cache.get(path)
            if cached is None or cached.key != _key(info):
                if not S_ISREG(info.st_mode):
                    return None
                if len(self._cache) >= _MAX_FILES:
                    del self._cache[next(iter(self._cache))]
                cached = self._cache[path] = _read(Path(path))
        except OSError:
            self._cache.pop(path, None)
            return None
        return cached


def read_prompt_file(path: Path) -> PromptText:
    """Return a file as `PromptFiles` does, without caching it. Raises `OSError`."""
    read = _read(path)
    return PromptText(read.text, opened_level(str(path), read.mark, {}), read.newest)


def _read(path: Path) -> _CachedText:
    with (
        open_regular_beneath(path) as raw,
        io.TextIOWrapper(raw, encoding="utf-8", errors="replace") as file,
    ):
        mark = OpenFileMark.of(raw.fileno())
        text, newest = file.read(MAX_CHARS + 1), ""
        is_cut = len(text) > MAX_CHARS and bool(text[-1].strip() or file.read(1_000).strip())
        if is_cut:
            newest = _newest_lines(raw, mark.info.st_size)
        return _CachedText(_key(mark.info), text if is_cut else text.strip(), newest, mark)


def _newest_lines(file: IO[bytes], size: int) -> str:
    """Return the last lines of a long file, at most `MAX_CHARS` characters."""
    # A UTF-8 character has at most four bytes.
    file.seek(max(size - 4 * MAX_CHARS, 0))
    text = file.read(4 * MAX_CHARS).decode("utf-8", "replace").replace("\r\n", "\n")
    end = text.rstrip()[-MAX_CHARS:]
    return end.partition("\n")[2] or end


def _key(info: os.stat_result) -> _Key:
    return info.st_dev, info.st_ino, info.st_ctime_ns, info.st_size
