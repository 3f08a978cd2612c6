"""Outbox of the audit log for events other than calls, stored in the transaction of the event."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, fields

from agent.records import frozen
from agent.security.audit import AuditEntry
from agent.serialization import dumps
from gateway.store.port import Transaction


@frozen
class AuditNote:
    """Event of the audit log other than a call.

    `what` is a word ("pairing", "mode"), `at` Unix time. `reason` and `params` contain ids and
    names of tools, never people's words. They are therefore stored unsealed until they are in the
    audit log, which is not encrypted either.
    """

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


def put_entry(tx: Transaction, entry: AuditEntry, text: str) -> None:
    """Store an entry of a worker for the audit log; `text` is its JSON."""
    (number,) = tx.one(
        "INSERT INTO audit_outbox (at, what, reason, is_allowed, session, params)"
        " VALUES (?, ?, '', ?, ?, '{}') RETURNING id",
        (entry.ts, entry.tool, entry.allowed, entry.session_id),
    )
    sealed = tx.seal(text, "audit_outbox.entry", number)
    tx.run("UPDATE audit_outbox SET entry = ? WHERE id = ?", (sealed, number))


def waiting(tx: Transaction, limit: int) -> list[tuple[int, AuditNote | AuditEntry]]:
    """Return notes and entries that are not in the audit log yet, oldest first, with numbers.

    Entries of workers are written unchanged.
    """
    rows = tx.all(
        "SELECT id, at, what, reason, params, is_allowed, session, entry FROM audit_outbox"
        " ORDER BY id LIMIT ?",
        (limit,),
    )
    return [
        (
            number,
            AuditNote(at, what, reason, json.loads(params), bool(allowed), session)
            if entry is None
            else _decode(tx.unseal(entry, "audit_outbox.entry", number)),
        )
        for number, at, what, reason, params, allowed, session, entry in rows
    ]


def forget(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete notes that are in the audit log.

    Each is deleted by its number, because an older note may be stored later.
    """
    tx.many("DELETE FROM audit_outbox WHERE id = ?", [(number,) for number in numbers])


def _decode(text: str) -> AuditEntry:
    """Decode an entry; a worker of another version may know more or fewer fields."""
    data = json.loads(text)
    names = {attribute.name for attribute in fields(AuditEntry)}
    return AuditEntry(**{name: value for name, value in data.items() if name in names})
