"""The memory that a session began with: its system prompt stays the same while the file grows."""

import json

from agent.context.memory_snapshot import MemorySnapshot
from gateway.store.errors import SealBroken
from gateway.store.port import Transaction


def load(tx: Transaction, session: str) -> MemorySnapshot | None:
    """Return None when none is stored, or one that was changed outside of Kore."""
    (sealed,) = tx.one("SELECT memory FROM session WHERE id = ?", (session,))
    if sealed is None:
        return None
    try:
        stored = json.loads(tx.unseal(sealed, "session.memory", session))
    except SealBroken:
        return None
    return MemorySnapshot(str(stored["file"]), str(stored["text"]))


def save(tx: Transaction, session: str, file: str, text: str) -> None:
    """In the place of another file's: who speaks here reads another memory now."""
    data = json.dumps({"file": file, "text": text}, ensure_ascii=False)
    tx.run(
        "UPDATE session SET memory = ? WHERE id = ?",
        (tx.seal(data, "session.memory", session), session),
    )
