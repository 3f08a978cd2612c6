"""What the audit log is told of besides calls: stored together with what it tells of."""

import json
from collections.abc import Mapping
from dataclasses import field

from agent.records import frozen
from agent.security.audit import AuditEntry
from agent.serialization import dumps
from gateway.store.port import Transaction


@frozen
class AuditNote:
    """`what` is a word ("pairing", "mode"), `at` Unix time. `params` hold ids, never what people
    said."""

    at: float
    what: str
    reason: str
    params: Mapping[str, str] = field(default_factory=dict)
    allowed: bool = True
    session: str = ""

    def entry(self) -> AuditEntry:
        return AuditEntry(
            ts=self.at,
            agent_id="kore",
            role="",
            tool=f"kore:{self.what}",
            allowed=self.allowed,
            reason=self.reason,
            params=self.params,
            session_id=self.session,
        )


def put(tx: Transaction, note: AuditNote) -> None:
    tx.run(
        "INSERT INTO audit_outbox (at, what, reason, is_allowed, session, params)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (note.at, note.what, note.reason, note.allowed, note.session, dumps(dict(note.params))),
    )


def waiting(tx: Transaction) -> list[tuple[int, AuditNote]]:
    """Those that are not on record yet, oldest first, each with its number."""
    rows = tx.all(
        "SELECT id, at, what, reason, params, is_allowed, session FROM audit_outbox ORDER BY id"
    )
    return [
        (number, AuditNote(at, what, reason, json.loads(params), bool(allowed), session))
        for number, at, what, reason, params, allowed, session in rows
    ]


def forget(tx: Transaction, number: int) -> None:
    """It is on record."""
    tx.run("DELETE FROM audit_outbox WHERE id = ?", (number,))
