"""What tools did to files, as rows; implements the transactions of `agent.undo.Ledger`."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from agent.undo.ledger import KEEP_S, UndoOperation, UndoResult
from agent.undo.records import ChangeStep, FileChange
from gateway.store.port import Transaction

_ENTRY = "unseal(entry, 'change.entry', step, n)"


def add(tx: Transaction, step: ChangeStep) -> None:
    """Put a step on record, and forget what is too old or can no longer be redone."""
    for table in ("change", "undoing"):
        tx.run(
            f"DELETE FROM {table} WHERE made_at < ?",
            (step.made_at - KEEP_S,),
        )
    tx.run(
        "UPDATE change SET standing = 'gone' WHERE session = ? AND standing = 'undone'",
        (step.session,),
    )
    (last,) = tx.one("SELECT coalesce(max(step), 0) FROM change")
    number = last + 1
    facts = (step.session, step.turn, step.call, step.tool, step.shared, step.made_at)
    tx.many(
        "INSERT INTO change (step, n, session, turn_id, call_id, tool, shared, made_at, standing,"
        " entry) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'done', seal(?, 'change.entry', ?, ?))",
        [
            (number, n, *facts, _entry(step.root, change), number, n)
            for n, change in enumerate(step.changes)
        ],
    )


def steps(tx: Transaction, session: str) -> list[ChangeStep]:
    """All that is kept of a session, newest first."""
    rows = tx.all(
        f"SELECT step, turn_id, call_id, tool, shared, made_at, n, standing, {_ENTRY} FROM change"
        " WHERE session = ? ORDER BY step DESC, n",
        (session,),
    )
    return [
        _step(session, number, list(group)) for number, group in groupby(rows, lambda row: row[0])
    ]


def begin(tx: Transaction, act: UndoOperation, now: float) -> UndoOperation:
    """The act of this name as it was begun; begins it if it was not."""
    row = tx.first(
        "SELECT unseal(plan, 'undoing.plan', name), unseal(report, 'undoing.report', name)"
        " FROM undoing WHERE name = ?",
        (act.key,),
    )
    if row is not None:
        return UndoOperation.from_json(act.key, act.session, json.loads(row[0]), row[1])
    tx.run(
        "INSERT INTO undoing (name, session, plan, made_at)"
        " VALUES (?, ?, seal(?, 'undoing.plan', ?), ?)",
        (act.key, act.session, json.dumps(act.to_json()), act.key, now),
    )
    return act


def end(tx: Transaction, ending: UndoResult) -> None:
    """The act and where its changes stand now, together."""
    for step, change in ending.changes:
        row = tx.first(f"SELECT {_ENTRY} FROM change WHERE step = ? AND n = ?", (step, change.n))
        if row is None:
            continue
        entry = _entry(Path(json.loads(row[0])["root"]), change)
        tx.run(
            "UPDATE change SET standing = ?, entry = seal(?, 'change.entry', step, n)"
            " WHERE step = ? AND n = ?",
            (change.standing, entry, step, change.n),
        )
    tx.run(
        "UPDATE undoing SET report = seal(?, 'undoing.report', name) WHERE name = ?",
        (ending.report, ending.key),
    )


def _entry(root: Path, change: FileChange) -> str:
    return json.dumps({"root": str(root), **change.to_json()})


def _step(session: str, number: int, rows: list[tuple[Any, ...]]) -> ChangeStep:
    _, turn, call, tool, shared, made_at, *_ = rows[0]
    entries = [(n, standing, json.loads(entry)) for *_, n, standing, entry in rows]
    return ChangeStep(
        session=session,
        turn=turn,
        call=call,
        tool=tool,
        root=Path(entries[0][2]["root"]),
        changes=tuple(FileChange.from_json(entry, n, standing) for n, standing, entry in entries),
        made_at=made_at,
        shared=bool(shared),
        id=number,
    )


def entries(tx: Transaction) -> list[str]:
    """Every stored change, as JSON."""
    return [
        entry for (entry,) in tx.all("SELECT unseal(entry, 'change.entry', step, n) FROM change")
    ]
