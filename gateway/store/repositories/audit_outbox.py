"""What the audit log is told of besides calls: stored together with what it tells of."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, fields

from agent.records import frozen
from agent.security.audit import AuditEntry
from agent.serialization import dumps
from gateway.store.port import Transaction


@frozen
class AuditNote:
    """An event of the audit log that is no call: `what` is a word ("pairing", "mode"), `at` Unix
    time. `reason` and `params` hold ids and names of tools, never what people said, so they are
    stored without a seal until the audit log, which is not encrypted either, has them."""

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
    """An entry of a worker, as the audit log is to write it; `text` is its JSON."""
    (number,) = tx.one(
        "INSERT INTO audit_outbox (at, what, reason, is_allowed, session, params)"
        " VALUES (?, ?, '', ?, ?, '{}') RETURNING id",
        (entry.ts, entry.tool, entry.allowed, entry.session_id),
    )
    sealed = tx.seal(text, "audit_outbox.entry", number)
    tx.run("UPDATE audit_outbox SET entry = ? WHERE id = ?", (sealed, number))


def waiting(tx: Transaction, limit: int) -> list[tuple[int, AuditNote | AuditEntry]]:
    """Those that are not on record yet, oldest first, each with its number. What a worker has left
    is an entry, which is written as it is."""
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
    """They are on record. Each by its number: one that is older may be stored later."""
    tx.many("DELETE FROM audit_outbox WHERE id = ?", [(number,) for number in numbers])


def _decode(text: str) -> AuditEntry:
    """A worker of another version may know more fields, or fewer."""
    data = json.loads(text)
    names = {one.name for one in fields(AuditEntry)}
    return AuditEntry(**{name: value for name, value in data.items() if name in names})
