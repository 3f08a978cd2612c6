"""Memory snapshots of sessions: the system prompt stays the same while the memory file grows."""

import json

from agent.context.memory_snapshot import MemorySnapshot
from gateway.store.errors import SealBroken
from gateway.store.port import Transaction


def load(tx: Transaction, session: str) -> MemorySnapshot | None:
    """Return the snapshot; None without one, or if it was changed outside of Kore."""
    (sealed,) = tx.one("SELECT memory FROM session WHERE id = ?", (session,))
    if sealed is None:
        return None
    try:
        stored = json.loads(tx.unseal(sealed, "session.memory", session))
    except SealBroken:
        return None
    return MemorySnapshot(str(stored["file"]), str(stored["text"]))


def save(tx: Transaction, session: str, file: str, text: str) -> None:
    """Store the snapshot of a session, replacing one of another memory file."""
    data = json.dumps({"file": file, "text": text}, ensure_ascii=False)
    tx.run(
        "UPDATE session SET memory = ? WHERE id = ?",
        (tx.seal(data, "session.memory", session), session),
    )
