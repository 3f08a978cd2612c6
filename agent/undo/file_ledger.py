"""Ledger of changes for library users: a folder with one JSON Lines file per session."""

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from agent.errors import KoreError
from agent.i18n import t
from agent.undo.blob_store import make_private
from agent.undo.ledger import RETENTION_S, UndoOperation, UndoResult
from agent.undo.records import ChangeStep, FileChange


class FileLedger:
    """Implements `Ledger`. A line left incomplete by a crash is dropped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def add(self, step: ChangeStep) -> None:
        data = {
            "turn": step.turn,
            "call": step.call,
            "tool": step.tool,
            "root": str(step.root),
            "made_at": step.made_at,
            "shared": step.is_shared,
            "changes": [change.to_json() for change in step.changes],
        }
        self._append(step.session, {"step": data})

    def steps(self, session: str) -> list[ChangeStep]:
        steps: dict[int, ChangeStep] = {}
        for number, record in enumerate(self._records(session), 1):
            if "step" in record:
                steps = {id_: _without_redo(step) for id_, step in steps.items()}
                steps[number] = _step(record["step"], session, number)
            for step_id, n, data, status in record.get("end", ()):
                if (step := steps.get(step_id)) is not None:
                    change = FileChange.from_json(data, n, status)
                    changes = [change if earlier.n == n else earlier for earlier in step.changes]
                    steps[step_id] = step.with_changes(changes)
        oldest = time.time() - RETENTION_S
        return [step for step in reversed(steps.values()) if step.made_at >= oldest]

    def begin(self, operation: UndoOperation) -> UndoOperation:
        stored: UndoOperation | None = None
        for record in self._records(operation.session):
            if record.get("act") == operation.key:
                stored = UndoOperation.from_json(
                    operation.key, operation.session, record["plan"], None
                )
            elif record.get("ended") == operation.key and stored is not None:
                stored = replace(stored, report=record["report"])
        if stored is None:
            self._append(operation.session, {"act": operation.key, "plan": operation.to_json()})
        return stored or operation

    def end(self, result: UndoResult) -> None:
        changes = [
            [step, change.n, change.to_json(), change.status] for step, change in result.changes
        ]
        self._append(result.session, {"ended": result.key, "report": result.report, "end": changes})

    def _append(self, session: str, record: dict[str, Any]) -> None:
        path = self._path(session)
        try:
            make_private(path.parent)
            with self._lock, open(path, "a+b", opener=_private) as file:
                # Start a new line after an incomplete one.
                if file.tell() and _last_byte(file) != b"\n":
                    file.write(b"\n")
                file.write(json.dumps(record).encode() + b"\n")
        except OSError as exc:
            raise KoreError(
                t("{path} cannot be written: {strerror}", path=path, strerror=exc.strerror)
            ) from exc

    def _records(self, session: str) -> Iterator[dict[str, Any]]:
        try:
            lines = self._path(session).read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines:
            try:
                record = json.loads(line or b"{}")
            except ValueError:
                continue
            yield record

    def _path(self, session: str) -> Path:
        return self._folder / "sessions" / f"{sha256(session.encode()).hexdigest()[:40]}.jsonl"


def _step(data: dict[str, Any], session: str, number: int) -> ChangeStep:
    return ChangeStep(
        session=session,
        turn=data["turn"],
        call=data["call"],
        tool=data["tool"],
        root=Path(data["root"]),
        changes=tuple(
            FileChange.from_json(change, n, "done") for n, change in enumerate(data["changes"])
        ),
        made_at=data["made_at"],
        is_shared=data["shared"],
        id=number,
    )


def _without_redo(step: ChangeStep) -> ChangeStep:
    if all(change.status != "undone" for change in step.changes):
        return step
    changes = [replace(c, status="gone") if c.status == "undone" else c for c in step.changes]
    return step.with_changes(changes)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _last_byte(file: BinaryIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)
