"""The audit trail on disk: hash-chained JSON lines in numbered files, and the head that ends them.

`audit.jsonl` is being written; when it is full it becomes `audit-000001.jsonl`, and so on. Each
line holds the hash of the line before it, across files. `head.json` says which line is the last,
so that a cut at the end shows, too. All of these are read without a lock, also beside a writer.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, fields
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
_OPENING_TRIES = 20


class AuditError(KoreError):
    """The audit trail cannot be written or read."""

    code = "audit"


class UnreadableTrail(Exception):
    """A line is no entry, or not the one that was written; the text says which."""


@frozen
class TrailHead:
    """Where the trail ends and begins.

    `hash` is that of the newest entry and `count` how many there have ever been. `number` is what
    the current file will be called; `size` its bytes, of which the newest entry begins at `last`.
    `oldest` is the first file that is kept: `oldest_prev` the hash and `oldest_count` the number
    of entries before it.
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
    return {name: getattr(entry, name) for name in _FIELDS}


def chain_line(entry: Mapping[str, Any], prev_hash: str) -> tuple[bytes, str]:
    """The line of an entry behind the one with `prev_hash`, and its own hash.

    The hash is SHA-256 over the JSON of all fields but itself, keys sorted, without blanks.
    """
    body = {name: entry[name] for name in _FIELDS} | {"prev_hash": prev_hash}
    digest = _digest(body)
    return dumps({**body, "hash": digest}).encode() + b"\n", digest


def parse_line(line: bytes) -> dict[str, Any]:
    """The entry of a whole line, with its hashes. Raises `UnreadableTrail`."""
    if not line.endswith(b"\n"):
        raise UnreadableTrail(t("the line is incomplete"))
    try:
        entry = json.loads(line)
    except ValueError:
        raise UnreadableTrail(t("the line is not JSON")) from None
    if not isinstance(entry, dict) or list(entry) != _KEYS:
        raise UnreadableTrail(t("the line is not an audit entry"))
    body = {name: value for name, value in entry.items() if name != "hash"}
    # Word for word: a second key of the same name would say one thing to us and one to others.
    if _digest(body) != entry["hash"] or dumps(entry).encode() + b"\n" != line:
        raise UnreadableTrail(t("the entry was changed: its hash does not match"))
    return entry


def _digest(body: Mapping[str, Any]) -> str:
    return sha256(dumps(dict(sorted(body.items()))).encode()).hexdigest()


def read_head(folder: Path) -> TrailHead | None:
    """None when there is none. Raises `UnreadableTrail`."""
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
    """The full files by their number, oldest first."""
    files = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if match := _NUMBERED.fullmatch(path.name):
            files[int(match[1])] = path
    return dict(sorted(files.items()))


def full_file(folder: Path, number: int) -> Path:
    return folder / f"audit-{number:06}.jsonl"


def open_files(folder: Path, stack: ExitStack) -> list[tuple[Path, BufferedReader]]:
    """All files, oldest first, as they were at one moment. Raises `AuditError`."""
    for _ in range(_OPENING_TRIES):
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
        # A writer may have begun a new file in between.
        if [*numbered_files(folder).values(), folder / CURRENT] == before:
            stack.enter_context(open_stack)
            return files
        open_stack.close()
    raise AuditError(
        t("the files in {folder} keep changing while they are opened; try again", folder=folder)
    )


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """What can be read of all entries, oldest first; whether they are genuine is not looked at."""
    with ExitStack() as stack:
        for _, file in open_files(folder, stack):
            for line in file:
                if (entry := parse_entry(line)) is not None:
                    yield entry


def is_repair(entry: Mapping[str, Any]) -> bool:
    """Whether a writer noted here what it had found out of order at its start."""
    return bool(entry["tool"] == REPAIR)


def parse_entry(line: bytes) -> dict[str, Any] | None:
    """An entry to show, if the line is one."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and set(_FIELDS) <= set(entry) else None
