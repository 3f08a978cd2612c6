"""Command `kore audit`: show, search and verify the audit log."""

import argparse
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from io import BufferedReader
from pathlib import Path
from typing import Any

from agent.i18n import plural, t
from agent.serialization import dumps
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, print_json
from gateway.ops.audit.trail import CURRENT, entries, parse_entry, seconds_of
from gateway.ops.audit.verify import AuditReport, verify

_POLL_INTERVAL_S = 0.25


def run(args: argparse.Namespace) -> int:
    home = data_dir_of(args)
    folder = home.audit
    if args.action == "verify":
        return _verify(verify(folder, args.head, home.audit_mark), args.head, as_json=args.json)
    if args.action == "search":
        matches = (entry for entry in entries(folder) if _fits(entry, args))
        count = 0
        for count, entry in enumerate(matches, 1):  # noqa: B007 - how many there were
            _show(entry, as_json=args.json)
        if not count and not args.json:
            print(t("no matching entries"), file=sys.stderr)
        return 0
    newest = deque(entries(folder), maxlen=args.n)
    for entry in newest:
        _show(entry, as_json=args.json)
    if not newest and not args.json:
        print(t("no entries yet; each tool call adds one"), file=sys.stderr)
    if args.follow:
        for entry in _follow(folder, newest[-1]["hash"] if newest else None):
            _show(entry, as_json=args.json)
    return 0


def _verify(report: AuditReport, head: str | None, *, as_json: bool) -> int:
    is_intact = not report.faults and report.contains_hash is not False
    if as_json:
        print_json({"ok": is_intact, **asdict(report)})
        return 0 if is_intact else 1
    for line in _lines(report, head):
        print(clean(line))
    return 0 if is_intact else 1


def _lines(report: AuditReport, head: str | None) -> Iterator[str]:
    for fault in report.faults:
        place: object = fault.file
        if fault.line:
            place = t("{file}, line {line}", file=fault.file, line=fault.line)
        yield f"{place}: {fault.problem}"
    if report.contains_hash is False:
        yield t(
            "no entry has the hash {head}: the log was recreated, or this is another log", head=head
        )
    for repair in report.repairs:
        yield t("noted at startup: {repair}", repair=repair)
    is_changed = report.faults or report.contains_hash is False
    verdict = t("does not match the original" if is_changed else "intact")
    entry_count = plural(report.entries, "{n:,} entry", "{n:,} entries")
    files = plural(report.files, "{n} file", "{n} files")
    yield t("{entries} in {files}: {verdict}", entries=entry_count, files=files, verdict=verdict)
    yield t("head: {head}", head=report.head)


def _fits(entry: Mapping[str, Any], args: argparse.Namespace) -> bool:
    if args.tool is not None and entry["tool"] != args.tool:
        return False
    if args.session is not None and not str(entry["session_id"]).startswith(args.session):
        return False
    if args.denied and entry["allowed"]:
        return False
    if args.since is not None and seconds_of(entry["ts"]) < args.since:
        return False
    return args.text is None or args.text.lower() in dumps(dict(entry)).lower()


def _show(entry: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(dumps(dict(entry)), flush=True)
        return
    time_text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds_of(entry["ts"])))
    verdict = "allowed" if entry["allowed"] else "DENIED "
    actor = " ".join(filter(None, (entry["role"], entry["session_id"])))
    params = dumps(entry["params"]) if entry["params"] else ""
    details = ": ".join(filter(None, (actor, entry["reason"])))
    line = f"{time_text}  {verdict}  {entry['tool']} {params}  ({details})"
    print(clean(line), flush=True)


def _follow(folder: Path, last_hash: str | None) -> Iterator[dict[str, Any]]:
    """Yield entries after the last one shown as they are written, endlessly."""
    file = _wait_for_file(folder / CURRENT)
    present = list(_whole_lines(file))
    hashes = [entry.get("hash") for entry in present]
    # If the hash is missing, a new file has been started since, and all of its entries are new.
    yield from present[hashes.index(last_hash) + 1 if last_hash in hashes else 0 :]
    while True:
        time.sleep(_POLL_INTERVAL_S)
        yield from _whole_lines(file)
        if not _is_current(file, folder / CURRENT):
            yield from _whole_lines(file)
            file.close()
            file = _wait_for_file(folder / CURRENT)


def _wait_for_file(path: Path) -> BufferedReader:
    while True:
        try:
            return path.open("rb")
        except FileNotFoundError:
            time.sleep(_POLL_INTERVAL_S)


def _is_current(file: BufferedReader, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _whole_lines(file: BufferedReader) -> Iterator[dict[str, Any]]:
    """Yield the entries up to the end; an incomplete line is left unread."""
    while line := file.readline():
        if not line.endswith(b"\n"):
            file.seek(-len(line), os.SEEK_CUR)
            return
        if (entry := parse_entry(line)) is not None:
            yield entry
