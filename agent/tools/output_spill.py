"""Output of any length in bounded memory: head and tail for the model, everything in a file."""

import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from agent.security.files.quarantine import quarantine_created
from agent.security.files.safe_open import LISTED, open_folder_beneath
from agent.security.taint.file_marks import mark_tainted
from agent.types import ToolResult

LINE_LIMIT = 2_000
SPILL_LIMIT_BYTES = 64_000_000
SPILL_FOLDER_LIMIT_BYTES = 256_000_000
SPILL_AGE_S = 7 * 24 * 3600
# Room for the text that a tool adds around output within the limit.
_AROUND_BYTES, _AROUND_LINES = 1_000, 10
# Also covers the file that contains it, so that `git status` does not list the folder at all.
_IGNORED = b"*\n"
_SUFFIXES = (".txt", ".png", ".jpeg", ".gif", ".webp")


class SpillBuffer:
    """Buffer that stores about `limit_bytes` in memory and writes all output to a spill file.

    The file is created in `folder` once the limit is exceeded; before that the disk is not used.
    With `marks`, the file and that workspace are marked, because the output contains strangers'
    words. `close` is idempotent; `text` may be called after it.
    """

    def __init__(self, folder: Path, limit_bytes: int, marks: Path | None = None) -> None:
        self.total_bytes = 0
        self.file: Path | None = None
        self._folder = folder
        self._marks = marks
        self._limit = max(2, limit_bytes)
        self._head = bytearray()
        self._tail = bytearray()
        self._sink: BinaryIO | None = None
        self._has_tried = False

    def __enter__(self) -> "SpillBuffer":
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def feed(self, data: bytes) -> None:
        """Add the next bytes."""
        self.total_bytes += len(data)
        if self._sink is not None:
            self._store(data)
        elif not self._has_tried and (self.total_bytes > self._limit or not self._few_lines(data)):
            self._has_tried = True
            self._spill(bytes(self._head) + data)
        room = self._limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[: -self._limit]

    def close(self) -> None:
        """Close the spill file."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def text(self) -> str:
        """Return the text for the model: everything, or head and tail and the path of the spill
        file.
        """
        head, tail = self._ends()
        left_out = self.total_bytes - len(head) - len(tail)
        if not left_out:
            return head.decode("utf-8", "replace")
        where = f"whole text in {self.file}" if self.file else "the whole text could not be saved"
        if self.total_bytes > SPILL_LIMIT_BYTES and self.file:
            where = f"the first {SPILL_LIMIT_BYTES:,} bytes in {self.file}"
        middle = f"\n… ({left_out:,} bytes left out; {where})\n"
        return head.decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace")

    def with_truncation_note(self, result: ToolResult) -> ToolResult:
        """Return the result for `text`, with the number of omitted bytes and the spill file."""
        head, tail = self._ends()
        cut_bytes = self.total_bytes - len(head) - len(tail)
        file = str(self.file) if cut_bytes and self.file else None
        return replace(result, cut_bytes=cut_bytes, file=file)

    def _ends(self) -> tuple[bytes, bytes]:
        """Return the head and the tail to show; everything and nothing if it all fits."""
        retained = bytes(self._head + self._tail)
        if self.total_bytes <= self._limit and retained.count(b"\n") <= LINE_LIMIT:
            return retained, b""
        half = self._limit // 2
        return _first_lines(retained[:half], LINE_LIMIT // 2), _last_lines(
            retained[-half:], LINE_LIMIT // 2
        )

    def _few_lines(self, data: bytes) -> bool:
        return self._head.count(b"\n") + data.count(b"\n") <= LINE_LIMIT

    def _spill(self, data: bytes) -> None:
        # Output that cannot be stored (a full disk, a folder in the way) is still worth showing.
        with suppress(OSError):
            name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(8)}.txt"
            self._sink = create_file(self._folder, name, self._marks)
            self.file = self._folder / name
            self._sink.write(data[:SPILL_LIMIT_BYTES])

    def _store(self, data: bytes) -> None:
        assert self._sink is not None
        before = self.total_bytes - len(data)
        with suppress(OSError):
            self._sink.write(data[: max(0, SPILL_LIMIT_BYTES - before)])


def create_file(folder: Path, name: str, marks: Path | None = None) -> BinaryIO:
    """Create a file in the folder of spilled outputs, after pruning old ones. Raises OSError.

    With `marks`, the file and that workspace are marked.
    """
    prune(folder)
    quarantine_created(folder)
    with open_folder_beneath(folder, create=True, flags=LISTED) as fd:
        os.fchmod(fd, 0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = open(os.open(name, flags, 0o600, dir_fd=fd), "wb", 0)  # noqa: SIM115
    try:
        if marks is not None:
            mark_tainted(folder / name, marks)
        _hide_from_git(folder)
    except OSError:
        file.close()
        raise
    return file


def bounded(result: ToolResult, workspace: Path, limit_bytes: int) -> ToolResult:
    """Return a result bounded like `SpillBuffer`; a result just over the limit stays complete."""
    data = result.for_model.encode("utf-8", "replace")
    few_lines = data.count(b"\n") <= LINE_LIMIT + _AROUND_LINES
    if few_lines and len(data) <= limit_bytes + _AROUND_BYTES:
        return result
    marks = workspace if "untrusted" in result.taint else None
    with SpillBuffer(spill_folder(workspace), limit_bytes, marks) as output:
        output.feed(data)
    return output.with_truncation_note(replace(result, for_model=output.text()))


def _hide_from_git(folder: Path) -> None:
    """Exclude the folder from repositories; an existing file is left unchanged."""
    with suppress(FileExistsError), open_folder_beneath(folder, flags=LISTED) as fd:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(".gitignore", flags, 0o644, dir_fd=fd), "wb") as file:
            file.write(_IGNORED)


def spill_folder(workspace: Path) -> Path:
    """Return the folder of a workspace's spilled outputs."""
    return workspace / ".kore" / "spill"


def prune(folder: Path) -> None:
    """Delete spill files older than 7 days, and the oldest ones beyond the folder's limit."""
    room = SPILL_FOLDER_LIMIT_BYTES
    with suppress(FileNotFoundError), open_folder_beneath(folder, flags=LISTED) as fd:
        for name, info in sorted(_spill_files(fd), key=lambda entry: -entry[1].st_mtime):
            room -= info.st_size
            if room < 0 or time.time() - info.st_mtime > SPILL_AGE_S:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=fd)


def _spill_files(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if name.endswith(_SUFFIXES) and stat.S_ISREG(info.st_mode):
                yield name, info


def _first_lines(data: bytes, limit: int) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) > limit:
        return b"".join(lines[:limit]).rstrip(b"\n")
    # A character split at the end of the head is omitted.
    end = len(data)
    for back in range(1, min(4, end) + 1):
        byte = data[end - back]
        if byte >= 0xC0:
            width = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[: end - back] if width > back else data
        if byte < 0x80:
            break
    return data


def _last_lines(data: bytes, limit: int) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) > limit:
        return b"".join(lines[-limit:])
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:]
