"""What tools did to files, as rows; implements the transactions of `agent.undo.Ledger`."""

import json
from itertools import groupby
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from agent.undo.ledger import KEEP_S, UndoOperation, UndoResult
from agent.undo.records import ChangeStep, FileChange

_ENTRY = "unseal(entry, 'change.entry', step, n)"


def add(connection: Connection, step: ChangeStep) -> None:
    """Put a step on record, and forget what is too old or can no longer be redone."""
    for table in ("change", "undoing"):
        connection.execute(
            f"DELETE FROM {table} WHERE made_at < ?",
            (step.made_at - KEEP_S,),
        )
    connection.execute(
        "UPDATE change SET standing = 'gone' WHERE session = ? AND standing = 'undone'",
        (step.session,),
    )
    (last,) = connection.execute("SELECT coalesce(max(step), 0) FROM change").fetchone()
    number = last + 1
    facts = (step.session, step.turn, step.call, step.tool, step.shared, step.made_at)
    connection.executemany(
        "INSERT INTO change (step, n, session, turn_id, call_id, tool, shared, made_at, standing,"
        " entry) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'done', seal(?, 'change.entry', ?, ?))",
        [
            (number, n, *facts, _entry(step.root, change), number, n)
            for n, change in enumerate(step.changes)
        ],
    )


def steps(connection: Connection, session: str) -> list[ChangeStep]:
    """All that is kept of a session, newest first."""
    rows = connection.execute(
        f"SELECT step, turn_id, call_id, tool, shared, made_at, n, standing, {_ENTRY} FROM change"
        " WHERE session = ? ORDER BY step DESC, n",
        (session,),
    )
    return [
        _step(session, number, list(group)) for number, group in groupby(rows, lambda row: row[0])
    ]


def begin(connection: Connection, act: UndoOperation, now: float) -> UndoOperation:
    """The act of this name as it was begun; begins it if it was not."""
    row = connection.execute(
        "SELECT unseal(plan, 'undoing.plan', name), unseal(report, 'undoing.report', name)"
        " FROM undoing WHERE name = ?",
        (act.key,),
    ).fetchone()
    if row is not None:
        return UndoOperation.from_json(act.key, act.session, json.loads(row[0]), row[1])
    connection.execute(
        "INSERT INTO undoing (name, session, plan, made_at)"
        " VALUES (?, ?, seal(?, 'undoing.plan', ?), ?)",
        (act.key, act.session, json.dumps(act.to_json()), act.key, now),
    )
    return act


def end(connection: Connection, ending: UndoResult) -> None:
    """The act and where its changes stand now, together."""
    for step, change in ending.changes:
        row = connection.execute(
            f"SELECT {_ENTRY} FROM change WHERE step = ? AND n = ?", (step, change.n)
        ).fetchone()
        if row is None:
            continue
        entry = _entry(Path(json.loads(row[0])["root"]), change)
        connection.execute(
            "UPDATE change SET standing = ?, entry = seal(?, 'change.entry', step, n)"
            " WHERE step = ? AND n = ?",
            (change.standing, entry, step, change.n),
        )
    connection.execute(
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
