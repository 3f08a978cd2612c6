"""Entries of processes that may not write the audit log, such as the command line.

They are stored in a file until the process that owns the data takes them over: at its start, before
it shows the log, and together with its own entries.
"""

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from agent.serialization import dumps
from gateway.store.repositories.audit_outbox import AuditNote

# Limit for one take-over.
_MAX_BYTES = 1_000_000


def leave_note(path: Path, note: AuditNote) -> None:
    """Append a note and flush it to disk. Raises OSError."""
    fd = _locked(path)
    try:
        os.lseek(fd, 0, os.SEEK_END)
        os.write(fd, dumps(asdict(note)).encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def waiting_notes(path: Path) -> Sequence[AuditNote]:
    """Return waiting notes, oldest first; other lines are skipped."""
    if not path.exists():
        return ()
    fd = _locked(path)
    try:
        rows = os.pread(fd, _MAX_BYTES, 0).splitlines()
    finally:
        os.close(fd)
    return [note for row in rows if (note := _decode(row)) is not None]


def forget_notes(path: Path, count: int) -> None:
    """Remove the first notes, which are now in the log."""
    fd = _locked(path)
    try:
        rows = os.pread(fd, os.fstat(fd).st_size, 0).splitlines(keepends=True)
        good = [n for n, row in enumerate(rows) if _decode(row) is not None]
        rest = b"".join(rows[good[count - 1] + 1 :]) if count else b"".join(rows)
        os.pwrite(fd, rest, 0)
        os.ftruncate(fd, len(rest))
    finally:
        os.close(fd)


def _locked(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def _decode(row: bytes) -> AuditNote | None:
    try:
        fields = json.loads(row)
        params = {str(name): str(value) for name, value in fields["params"].items()}
        return AuditNote(
            float(fields["at"]),
            str(fields["what"]),
            str(fields["reason"]),
            params,
            bool(fields["allowed"]),
            str(fields["session"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
