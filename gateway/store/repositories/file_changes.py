"""Repository for file changes of tools; implements the transactions of `agent.undo.Ledger`."""

import json
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from agent.undo.ledger import RETENTION_S, UndoOperation, UndoResult
from agent.undo.records import ChangeStep, FileChange
from gateway.store.port import Transaction

_ENTRY = "file_change.entry"
_PLAN = "undo_operation.plan"
_REPORT = "undo_operation.report"
# Prefix of sessions for the owner's changes outside of conversations, one for each folder.
PAGE = "page:"


def page_session(root: Path) -> str:
    """Return the session for changes of a real folder; it does not reveal the folder's name."""
    return PAGE + sha256(bytes(root)).hexdigest()[:32]


def add(tx: Transaction, step: ChangeStep) -> None:
    """Record a step, and delete changes that are too old or can no longer be redone."""
    for table in ("file_change", "undo_operation"):
        tx.run(
            f"DELETE FROM {table} WHERE made_at < ?",
            (step.made_at - RETENTION_S,),
        )
    tx.run(
        "UPDATE file_change SET state = 'gone' WHERE session = ? AND state = 'undone'",
        (step.session,),
    )
    (last,) = tx.one("SELECT coalesce(max(step), 0) FROM file_change")
    number = last + 1
    facts = (step.session, step.turn, step.call, step.tool, step.is_shared, step.made_at)
    tx.many(
        "INSERT INTO file_change (step, n, session, turn_id, call_id, tool, is_shared,"
        " made_at, state,"
        " entry) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'done', ?)",
        [
            (number, n, *facts, tx.seal(_entry(step.root, change), _ENTRY, number, n))
            for n, change in enumerate(step.changes)
        ],
    )


def steps(tx: Transaction, session: str) -> list[ChangeStep]:
    """Return all recorded steps of a session, newest first."""
    rows = tx.all(
        "SELECT step, turn_id, call_id, tool, is_shared, made_at, n, state, entry FROM file_change"
        " WHERE session = ? ORDER BY step DESC, n",
        (session,),
    )
    return [
        _step(tx, session, number, list(group))
        for number, group in groupby(rows, lambda row: row[0])
    ]


def begin(tx: Transaction, act: UndoOperation, now: float) -> UndoOperation:
    """Return the operation of this name; begin it if it does not exist."""
    row = tx.first(
        "SELECT plan, report FROM undo_operation WHERE name = ?",
        (act.key,),
    )
    if row is not None:
        plan = json.loads(tx.unseal(row[0], _PLAN, act.key))
        report = tx.unseal(row[1], _REPORT, act.key)
        return UndoOperation.from_json(act.key, act.session, plan, report)
    tx.run(
        "INSERT INTO undo_operation (name, session, plan, made_at) VALUES (?, ?, ?, ?)",
        (act.key, act.session, tx.seal(json.dumps(act.to_json()), _PLAN, act.key), now),
    )
    return act


def end(tx: Transaction, ending: UndoResult) -> None:
    """Store the report of an operation together with the new states of its changes."""
    for step, change in ending.changes:
        row = tx.first("SELECT entry FROM file_change WHERE step = ? AND n = ?", (step, change.n))
        if row is None:
            continue
        before = json.loads(tx.unseal(row[0], _ENTRY, step, change.n))
        entry = tx.seal(_entry(Path(before["root"]), change), _ENTRY, step, change.n)
        tx.run(
            "UPDATE file_change SET state = ?, entry = ? WHERE step = ? AND n = ?",
            (change.status, entry, step, change.n),
        )
    report = tx.seal(ending.report, _REPORT, ending.key)
    tx.run("UPDATE undo_operation SET report = ? WHERE name = ?", (report, ending.key))


def _entry(root: Path, change: FileChange) -> str:
    return json.dumps({"root": str(root), **change.to_json()})


def _step(tx: Transaction, session: str, number: int, rows: list[tuple[Any, ...]]) -> ChangeStep:
    _, turn, call, tool, shared, made_at, *_ = rows[0]
    entries = [
        (n, status, json.loads(tx.unseal(entry, _ENTRY, number, n)))
        for *_, n, status, entry in rows
    ]
    return ChangeStep(
        session=session,
        turn=turn,
        call=call,
        tool=tool,
        root=Path(entries[0][2]["root"]),
        changes=tuple(FileChange.from_json(entry, n, status) for n, status, entry in entries),
        made_at=made_at,
        is_shared=bool(shared),
        id=number,
    )


def entries(tx: Transaction) -> list[str]:
    """Return every stored change, as JSON."""
    return [
        tx.unseal(entry, _ENTRY, step, n)
        for step, n, entry in tx.all("SELECT step, n, entry FROM file_change")
    ]
