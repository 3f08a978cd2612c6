"""Audit log: every decision about a tool call is on disk before the call begins.

Its only writer is the process that owns the data. Entries that wait for the disk at the same time
share one fsync of the file and one of the head.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent.i18n import t
from agent.security.audit import AuditEntry, AuditLevel
from gateway.core.tasks import run_to_completion
from gateway.ops.audit.argument_summary import summarize
from gateway.ops.audit.recovery import ending, recover_head
from gateway.ops.audit.trail import (
    CURRENT,
    GENESIS,
    HEAD,
    AuditCheckpoint,
    AuditError,
    TrailHead,
    UnreadableTrail,
    chain_line,
    entries,
    fields_of,
    full_file,
    numbered_files,
    read_checkpoint,
    write_checkpoint,
)
from gateway.store.repositories.audit_outbox import AuditNote

log = logging.getLogger(__name__)

FILE_LIMIT_BYTES = 10_000_000
MAX_FILES = 10
_HEAD_BYTES = 512


@dataclass(slots=True)
class _PendingEntry:
    entry: AuditEntry
    error: AuditError | None = None


class AuditLog:
    """Implementation of `agent.security.audit.AuditSink` in a folder.

    `level` is called for each entry: "summary" keeps targets (paths, commands, addresses, cut at
    200 characters) and only the lengths of other texts, "full" keeps everything, "none" writes
    nothing. `clean` removes secrets from every text. A file has at most `limit_bytes`, and `keep`
    full files are retained. `mark` is the checkpoint file outside `folder`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        level: Callable[[], AuditLevel] = lambda: "summary",
        clean: Callable[[str], str] = str,
        limit_bytes: int = FILE_LIMIT_BYTES,
        keep: int = MAX_FILES,
        mark: Path | None = None,
    ) -> None:
        self._folder = folder
        self._level = level
        self._clean = clean
        self._limit_bytes = limit_bytes
        self._files_kept = keep
        self._pending_entries: list[_PendingEntry] = []
        self._lock = asyncio.Lock()
        self._head = TrailHead()
        self._mark_path = mark
        self._removed = 0
        self._file = self._head_file = self._mark_file = -1

    async def open(self) -> None:
        """Continue after the last entry; repair and note the traces of a crash.

        Raises `AuditError` when the files cannot be opened.
        """
        notes: list[str] = []
        async with self._lock:
            if self._file < 0 and self._level() != "none":
                notes = await run_to_completion(asyncio.to_thread(self._start))
        for text in notes:
            await self.record(AuditNote(time.time(), "audit", text, allowed=False).entry())

    async def record(self, entry: AuditEntry) -> None:
        """Write an entry and return once it is on disk. Raises `AuditError` if it may not be."""
        if self._level() != "none":
            await self.append([self.summarize(entry)])

    def summarize(self, entry: AuditEntry) -> AuditEntry:
        """Return the entry as this log writes it. Raises `AuditError`."""
        return summarize(entry, self._level(), self._clean)

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        """Write summarized entries in order, with one fsync.

        Raises `AuditError` when one of them may not be on disk.
        """
        if self._level() == "none":
            return
        if self._file < 0:
            await self.open()
        batch = [_PendingEntry(entry) for entry in entries]
        self._pending_entries += batch
        await self._write_waiting()
        for pending in batch:
            if pending.error is not None:
                raise pending.error

    async def close(self) -> None:
        """Write pending entries, then close the files."""
        with suppress(AuditError):
            await self._write_waiting()
        for descriptor in (self._file, self._head_file, self._mark_file):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._head_file = self._mark_file = -1

    def _start(self) -> list[str]:
        """Open the log; return notes about irregularities."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._head, notes = recover_head(self._folder)
            if self._mark_path is not None:
                notes += self._compare(self._mark_path)
            self._head_file = _open(self._folder / HEAD, os.O_RDWR)
            self._use_current()
            self._put_head()
            self._forget_old()
        except OSError as exc:
            raise AuditError(
                t(
                    "the audit log in {folder} cannot be opened: {reason}",
                    folder=self._folder,
                    reason=exc,
                )
            ) from exc
        for text in notes:
            log.warning("audit: %s", text)
        return notes

    def _compare(self, path: Path) -> list[str]:
        """Open the checkpoint; return a note if it names entries that the log lacks."""
        try:
            mark = read_checkpoint(path)
        except UnreadableTrail as exc:
            mark, notes = AuditCheckpoint(), [f"{exc}; it was recreated"]
        else:
            notes = []
        self._removed = mark.removed
        if mark.hash not in (GENESIS, self._head.hash) and not any(
            entry["hash"] == mark.hash for entry in entries(self._folder)
        ):
            missing = max(mark.count - self._head.count, 1)
            self._removed += missing
            notes.append(f"{missing:,} earlier entries are missing")
        self._mark_file = _open(path, os.O_RDWR)
        return notes

    async def _write_waiting(self) -> None:
        """Write all pending entries, on behalf of every waiting caller."""
        async with self._lock:
            batch, self._pending_entries = self._pending_entries, []
            if batch:
                await run_to_completion(asyncio.to_thread(self._write, batch))

    def _write(self, batch: Sequence[_PendingEntry]) -> None:
        try:
            for pending in batch:
                try:
                    self._append(pending.entry)
                except (ValueError, RecursionError) as exc:
                    # The entry cannot be encoded as JSON; the others must not be lost with it.
                    pending.error = AuditError(f"the entry cannot be written: {exc}")
            self._safe()
        except OSError as exc:
            error = AuditError(f"the audit log cannot be written: {exc.strerror}")
            log.error("%s", error)
            for pending in batch:
                pending.error = error

    def _append(self, entry: AuditEntry) -> None:
        self._look_at_file()
        head = self._head
        line, digest = chain_line(fields_of(entry), head.hash)
        if head.size and head.size + len(line) > self._limit_bytes:
            self._safe()
            self._rotate()
            head = self._head
        try:
            _write_all(self._file, line)
        except OSError:
            # Remove a partial line (after a full disk), so that the next line starts cleanly.
            os.ftruncate(self._file, head.size)
            raise
        size = head.size + len(line)
        self._head = replace(head, hash=digest, count=head.count + 1, size=size, last=head.size)

    def _safe(self) -> None:
        os.fsync(self._file)
        self._put_head()

    def _put_head(self) -> None:
        # Written in place, with a fixed size within one page: readers see the old or the new head.
        os.pwrite(self._head_file, self._head.to_json().ljust(_HEAD_BYTES).encode(), 0)
        os.fsync(self._head_file)
        if self._mark_file >= 0:
            write_checkpoint(
                self._mark_file, AuditCheckpoint(self._head.hash, self._head.count, self._removed)
            )

    def _look_at_file(self) -> None:
        """Reopen a file that was moved or truncated meanwhile; the chain shows it."""
        info = os.fstat(self._file)
        if not _is_at(info, self._folder / CURRENT):
            log.error("audit: the file was removed while in use")
            self._use_current()
        elif info.st_size != self._head.size:
            log.error("audit: the file was changed by another program while in use")
            self._head = replace(self._head, size=info.st_size)

    def _use_current(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = _open(self._folder / CURRENT, os.O_WRONLY | os.O_APPEND)
        self._head = replace(self._head, size=os.fstat(self._file).st_size)
        _sync_folder(self._folder)

    def _rotate(self) -> None:
        head = self._head
        while full_file(self._folder, head.number).exists():
            head = replace(head, number=head.number + 1)
        (self._folder / CURRENT).rename(full_file(self._folder, head.number))
        self._head = replace(head, number=head.number + 1, size=0, last=0)
        self._use_current()
        self._put_head()
        self._forget_old()

    def _forget_old(self) -> None:
        """Delete the oldest files once the head no longer refers to them."""
        full = numbered_files(self._folder)
        while len(full) > self._files_kept:
            oldest = min(full)
            lines, last_hash = ending(full[oldest])
            head = self._head
            count = head.oldest_count + lines
            self._head = replace(head, oldest=oldest + 1, oldest_prev=last_hash, oldest_count=count)
            self._put_head()
            full.pop(oldest).unlink()


def _open(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _is_at(info: os.stat_result, path: Path) -> bool:
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (info.st_dev, info.st_ino)


def _write_all(descriptor: int, data: bytes) -> None:
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(descriptor, unwritten) :]


def _sync_folder(folder: Path) -> None:
    """Flush the folder: the name of a new file is on disk only after that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
