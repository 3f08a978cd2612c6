"""Files of the audit log: hash-chained JSON lines in numbered files, and their head.

The current file is `audit.jsonl`; when it is full it becomes `audit-000001.jsonl`, and so on. Each
line contains the hash of the previous line, across files. `head.json` names the last line, so that
truncation shows, too. All files can be read without a lock while a writer works.

A checkpoint outside of the folder reveals the removal of the whole log. It is written after the
log, so that it never names an entry that is not on disk. A process that may write both can remove
both; `kore audit verify --head` with a hash stored elsewhere proves more.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, fields
from datetime import UTC, datetime
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import Any

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from agent.security.audit import AuditEntry
from agent.serialization import dumps

CURRENT = "audit.jsonl"
HEAD = "head.json"
GENESIS = "0" * 64
REPAIR = "kore:audit"
_NUMBERED = re.compile(r"audit-(\d{6,})\.jsonl")
_FIELDS = ["ts", "agent_id", "role", "tool", "allowed", "reason", "params", "session_id"]
_KEYS = [*_FIELDS, "prev_hash", "hash"]
_MAX_OPENING_TRIES = 20
_SIZE_BYTES = 256


class AuditError(KoreError):
    """Raised when the audit log cannot be written or read."""

    code = "audit"


class UnreadableTrail(Exception):
    """Raised for a line that is not an entry or was changed; the message says which."""


@frozen
class TrailHead:
    """Beginning and end of the log.

    `hash` is the hash of the newest entry and `count` the number of entries ever written. `number`
    is the future number of the current file; `size` is its length in bytes, of which the newest
    entry begins at `last`. `oldest` is the number of the first existing file, `oldest_prev` and
    `oldest_count` are the hash and the number of the entries before it.
    """

    hash: str = GENESIS
    count: int = 0
    number: int = 1
    size: int = 0
    last: int = 0
    oldest: int = 1
    oldest_prev: str = GENESIS
    oldest_count: int = 0

    def to_json(self) -> str:
        return dumps(asdict(self))


def fields_of(entry: AuditEntry) -> dict[str, Any]:
    """Return the fields of a line, with the time in UTC as in ISO 8601."""
    return {name: getattr(entry, name) for name in _FIELDS} | {"ts": _iso(entry.ts)}


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def seconds_of(time: object) -> float:
    """Return the Unix time of an entry's `ts`; older lines contain it already."""
    if isinstance(time, int | float):
        return float(time)
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return 0.0


def chain_line(entry: Mapping[str, Any], prev_hash: str) -> tuple[bytes, str]:
    """Return the line of an entry that follows `prev_hash`, and its hash.

    The hash is SHA-256 over the JSON of all other fields, with sorted keys and without spaces.
    """
    body = {name: entry[name] for name in _FIELDS} | {"prev_hash": prev_hash}
    digest = _digest(body)
    return dumps({**body, "hash": digest}).encode() + b"\n", digest


def parse_line(line: bytes) -> dict[str, Any]:
    """Return the entry of a complete line, with its hashes. Raises `UnreadableTrail`."""
    if not line.endswith(b"\n"):
        raise UnreadableTrail(t("the line is incomplete"))
    try:
        entry = json.loads(line)
    except ValueError:
        raise UnreadableTrail(t("the line is not JSON")) from None
    if not isinstance(entry, dict) or list(entry) != _KEYS:
        raise UnreadableTrail(t("the line is not an audit entry"))
    body = {name: value for name, value in entry.items() if name != "hash"}
    # Compare the exact text: a repeated key would be read differently by other programs.
    if _digest(body) != entry["hash"] or dumps(entry).encode() + b"\n" != line:
        raise UnreadableTrail(t("the entry was changed: its hash does not match"))
    return entry


def _digest(body: Mapping[str, Any]) -> str:
    return sha256(dumps(dict(sorted(body.items()))).encode()).hexdigest()


def read_head(folder: Path) -> TrailHead | None:
    """Return the head, or None if there is none. Raises `UnreadableTrail`."""
    try:
        data = json.loads((folder / HEAD).read_bytes())
        values = {field.name: data[field.name] for field in fields(TrailHead)}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise UnreadableTrail(t("{name} is damaged", name=HEAD)) from None
    if any(type(values[field.name]) is not type(field.default) for field in fields(TrailHead)):
        raise UnreadableTrail(t("{name} is damaged", name=HEAD))
    return TrailHead(**values)


def numbered_files(folder: Path) -> dict[int, Path]:
    """Return the full files by number, oldest first."""
    files = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if match := _NUMBERED.fullmatch(path.name):
            files[int(match[1])] = path
    return dict(sorted(files.items()))


def full_file(folder: Path, number: int) -> Path:
    return folder / f"audit-{number:06}.jsonl"


def open_files(folder: Path, stack: ExitStack) -> list[tuple[Path, BufferedReader]]:
    """Open a consistent set of all files, oldest first. Raises `AuditError`."""
    for _ in range(_MAX_OPENING_TRIES):
        before = [*numbered_files(folder).values(), folder / CURRENT]
        open_stack = ExitStack()
        files = []
        for path in before:
            try:
                files.append((path, open_stack.enter_context(path.open("rb"))))
            except FileNotFoundError:
                continue
            except OSError as exc:
                raise AuditError(
                    t("{path} cannot be read: {reason}", path=path, reason=exc.strerror)
                ) from exc
        # Check that no writer has begun a new file meanwhile.
        if [*numbered_files(folder).values(), folder / CURRENT] == before:
            stack.enter_context(open_stack)
            return files
        open_stack.close()
    raise AuditError(
        t("the files in {folder} keep changing while they are opened; try again", folder=folder)
    )


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield all readable entries, oldest first, without verifying them."""
    with ExitStack() as stack:
        for _, file in open_files(folder, stack):
            for line in file:
                if (entry := parse_entry(line)) is not None:
                    yield entry


def is_repair(entry: Mapping[str, Any]) -> bool:
    """Return whether a writer reported an irregularity here when it started."""
    return bool(entry["tool"] == REPAIR)


def parse_entry(line: bytes) -> dict[str, Any] | None:
    """Return the entry in a line, or None if the line is not an entry."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and set(_FIELDS) <= set(entry) else None


@frozen
class AuditCheckpoint:
    """Newest entry of the log.

    `hash` is the hash of the newest entry, `count` the number of entries ever written. `removed` is
    the minimum number of entries found missing at startup; 0 means that nothing was removed.
    """

    hash: str = GENESIS
    count: int = 0
    removed: int = 0


def read_checkpoint(path: Path) -> AuditCheckpoint:
    """Return the checkpoint, or an empty one if the file is missing. Raises `UnreadableTrail`."""
    try:
        match json.loads(path.read_bytes()):
            case {"hash": str(digest), "count": int(count), "removed": int(removed)}:
                return AuditCheckpoint(digest, count, removed)
    except FileNotFoundError:
        return AuditCheckpoint()
    except ValueError:
        pass
    raise UnreadableTrail(t("{name} is damaged", name=path.name))


def write_checkpoint(descriptor: int, mark: AuditCheckpoint) -> None:
    """Write the checkpoint in place, with a fixed size: readers see the old or the new one."""
    os.pwrite(descriptor, dumps(asdict(mark)).ljust(_SIZE_BYTES).encode(), 0)
