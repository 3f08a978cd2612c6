"""Recovery of the audit log at start after a clean stop, a crash or tampering."""

import os
from dataclasses import replace
from pathlib import Path

from gateway.ops.audit.trail import (
    CURRENT,
    GENESIS,
    TrailHead,
    UnreadableTrail,
    full_file,
    numbered_files,
    parse_line,
    read_head,
)


def recover_head(folder: Path) -> tuple[TrailHead, list[str]]:
    """Return the head to continue from, and notes about repairs and irregularities.

    Only the single writer may call this. A line truncated by a crash is removed; complete lines
    unknown to the head are accepted if they fit the chain. Everything else is left for `kore audit
    verify` to find.
    """
    notes: list[str] = []
    try:
        head = read_head(folder)
    except UnreadableTrail as exc:
        head = None
        notes.append(f"{exc}; it was recreated from the entries")
    if head is None:
        head, missing = _from_files(folder)
        if missing and not notes:
            notes.append("head.json was missing; it was recreated from the entries")
    _forget_leftovers(folder, head)
    current = folder / CURRENT
    if not current.exists() and full_file(folder, head.number).exists():
        # The writer was killed between renaming a full file and writing the head.
        head = replace(head, number=head.number + 1, size=0, last=0)
    return _with_tail(current, head, notes), notes


def _from_files(folder: Path) -> tuple[TrailHead, bool]:
    """Return a head rebuilt from the files, and whether there were any entries."""
    full = numbered_files(folder)
    head = TrailHead(number=max(full, default=0) + 1, oldest=min(full, default=1))
    paths = [path for path in (*full.values(), folder / CURRENT) if path.exists()]
    first = True
    for path in paths:
        offset = 0
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                entry = parse_line(line)
            except UnreadableTrail:
                entry = None
            if entry is not None:
                if first:
                    head = replace(head, oldest_prev=entry["prev_hash"])
                head = replace(head, hash=entry["hash"], last=offset)
                first = False
            offset += len(line)
            if line.endswith(b"\n"):
                head = replace(head, count=head.count + 1, size=offset)
    if not (folder / CURRENT).exists():
        head = replace(head, size=0, last=0)
    return head, not first


def _forget_leftovers(folder: Path, head: TrailHead) -> None:
    """Delete files that the head no longer refers to and that a kill left behind."""
    for number, path in numbered_files(folder).items():
        if number < head.oldest:
            path.unlink()


def _with_tail(current: Path, head: TrailHead, notes: list[str]) -> TrailHead:
    """Return the head advanced to the end of the current file."""
    try:
        descriptor = os.open(current, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        if head.size:
            notes.append(f"{current.name} is missing; a new one was started")
        return replace(head, size=0, last=0)
    with os.fdopen(descriptor, "r+b") as file:
        if not _ends_with(file.fileno(), head):
            notes.append(f"the end of {current.name} does not match the last written entry")
            size = file.seek(0, os.SEEK_END)
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                file.write(b"\n")
            return replace(head, size=file.seek(0, os.SEEK_END))
        file.seek(head.size)
        for line in file.read().splitlines(keepends=True):
            try:
                entry = parse_line(line)
            except UnreadableTrail:
                break
            if entry["prev_hash"] != head.hash:
                break
            head = replace(
                head,
                hash=entry["hash"],
                count=head.count + 1,
                size=head.size + len(line),
                last=head.size,
            )
        removed_bytes = file.seek(0, os.SEEK_END) - head.size
        if removed_bytes:
            notes.append(
                f"{removed_bytes:,} bytes of an unfinished entry were removed from {current.name}"
            )
            file.truncate(head.size)
            os.fsync(file.fileno())
        return head


def _ends_with(descriptor: int, head: TrailHead) -> bool:
    """Return whether the newest entry of the head is at its recorded position."""
    if os.fstat(descriptor).st_size < head.size:
        return False
    if not head.size:
        return True
    try:
        line = os.pread(descriptor, head.size - head.last, head.last)
        return bool(parse_line(line)["hash"] == head.hash)
    except UnreadableTrail:
        return False


def ending(path: Path) -> tuple[int, str]:
    """Return the number of lines of a full file, and the hash of its last entry."""
    lines, last = 0, GENESIS
    with path.open("rb") as file:
        for line in file:
            lines += 1
            try:
                last = parse_line(line)["hash"]
            except UnreadableTrail:
                continue
    return lines, last
