"""Verification of the audit log: finds truncation, edits, moved lines and missing files."""

from collections.abc import Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from agent.i18n import plural
from agent.records import frozen
from gateway.ops.audit.trail import (
    GENESIS,
    HEAD,
    AuditCheckpoint,
    TrailHead,
    UnreadableTrail,
    full_file,
    is_repair,
    numbered_files,
    open_files,
    parse_line,
    read_checkpoint,
    read_head,
)

_MAX_FAULTS = 100


@frozen
class AuditFault:
    """Difference from what was written. `line` counts from 1; 0 means the whole file."""

    file: str
    line: int
    problem: str


@dataclass(slots=True)
class AuditReport:
    """Result of a verification.

    `newer_entries` counts entries after the head: a writer is working, or was killed. `head` is the
    hash of the newest entry; stored elsewhere, it proves later that no entry up to there was
    replaced. `contains_hash` is true if the expected hash was found. `repairs` are notes that
    writers made at startup, such as about a truncated line or a lost head.
    """

    entries: int = 0
    files: int = 0
    newer_entries: int = 0
    head: str = GENESIS
    contains_hash: bool | None = None
    repairs: list[str] = field(default_factory=list)
    faults: list[AuditFault] = field(default_factory=list)

    def add_fault(self, path: Path, line: int, what: str) -> None:
        if len(self.faults) < _MAX_FAULTS:
            self.faults.append(AuditFault(path.name, line, what))


def verify(folder: Path, expected: str | None = None, mark: Path | None = None) -> AuditReport:
    """Check every file against the chain and the head. Raises `AuditError` for unreadable files.

    `expected` is the hash of an entry that must exist, `mark` the checkpoint file.
    """
    report = AuditReport(contains_hash=None if expected is None else expected == GENESIS)
    # Read the checkpoint before the head: entries written meanwhile come after both.
    checkpoint = _read_checkpoint(mark, report) if mark is not None else AuditCheckpoint()
    head = _head(folder, report)
    with ExitStack() as stack:
        files = open_files(folder, stack)
        if head is not None:
            _check_files(folder, head, report)
            files = [
                (path, file) for path, file in files if path not in _removed_files(folder, head)
            ]
        if head is None and files:
            report.add_fault(folder / HEAD, 0, "is missing: a cut at the end would not show")
        walk = _TrailWalk(head, report, {expected, checkpoint.hash})
        for path, file in files:
            report.files += 1
            for n, line in enumerate(file, start=1):
                walk.step(path, n, line)
        walk.end(files[-1][0] if files else folder / HEAD)
    if expected is not None:
        report.contains_hash = report.contains_hash or expected in walk.matched_hashes
    if (
        mark is not None
        and checkpoint.hash != GENESIS
        and checkpoint.hash not in walk.matched_hashes
    ):
        fault = plural(
            checkpoint.count,
            "{n:,} written entry is missing",
            "the newest of {n:,} written entries is missing",
        )
        report.add_fault(folder, 0, fault)
    return report


def _read_checkpoint(path: Path, report: AuditReport) -> AuditCheckpoint:
    try:
        mark = read_checkpoint(path)
    except UnreadableTrail as exc:
        report.add_fault(path, 0, str(exc))
        return AuditCheckpoint()
    if mark.removed:
        fault = plural(
            mark.removed,
            "{n:,} entry of an earlier log is missing",
            "{n:,} entries of an earlier log are missing",
        )
        report.add_fault(path, 0, fault)
    return mark


def _head(folder: Path, report: AuditReport) -> TrailHead | None:
    try:
        return read_head(folder)
    except UnreadableTrail:
        report.add_fault(folder / HEAD, 0, "is damaged")
        return None


def _removed_files(folder: Path, head: TrailHead) -> set[Path]:
    return {path for number, path in numbered_files(folder).items() if number < head.oldest}


def _check_files(folder: Path, head: TrailHead, report: AuditReport) -> None:
    there = numbered_files(folder)
    for number in range(head.oldest, head.number):
        if number not in there:
            report.add_fault(full_file(folder, number), 0, "is missing")


class _TrailWalk:
    """Single pass over all lines, oldest first."""

    def __init__(
        self, head: TrailHead | None, report: AuditReport, expected_hashes: Set[str | None]
    ) -> None:
        self._head = head
        self._report = report
        self._expected_hashes = expected_hashes
        # Expected hashes that were found.
        self.matched_hashes: set[str] = set()
        # Without a head, the hash before the oldest file is unknown.
        self._previous = head.oldest_prev if head else None
        self._count = head.oldest_count if head else 0

    def step(self, path: Path, n: int, line: bytes) -> None:
        report, head = self._report, self._head
        if head is not None and self._count >= head.count and not line.endswith(b"\n"):
            return  # being written, or truncated by a kill; the next start repairs it
        self._count += 1
        report.entries += 1
        try:
            entry = parse_line(line)
        except UnreadableTrail as exc:
            report.add_fault(path, n, str(exc))
            self._previous = None
            return
        if self._previous is not None and entry["prev_hash"] != self._previous:
            report.add_fault(path, n, "does not follow the entry before it: some were cut or moved")
        self._previous = report.head = entry["hash"]
        if is_repair(entry):
            report.repairs.append(entry["reason"])
        if entry["hash"] in self._expected_hashes:
            self.matched_hashes.add(entry["hash"])
        if head is not None and self._count == head.count and entry["hash"] != head.hash:
            report.add_fault(path, n, "is not the entry that was written last")

    def end(self, last: Path) -> None:
        head = self._head
        if head is None:
            return
        if self._count < head.count:
            missing = head.count - self._count
            fault = plural(
                missing,
                "{n:,} entry of {count:,} is missing",
                "{n:,} entries of {count:,} are missing",
                count=head.count,
            )
            self._report.add_fault(last, 0, fault)
        self._report.newer_entries = max(0, self._count - head.count)
