"""The memory that a session began with: its system prompt stays the same while the file grows."""

import json

from gateway.store.port import Transaction


def load(tx: Transaction, session: str, file: str) -> str | None:
    """The text of that memory file when the session began; None when none is stored of it."""
    (sealed,) = tx.one("SELECT memory FROM session WHERE id = ?", (session,))
    if sealed is None:
        return None
    stored = json.loads(tx.unseal(sealed, "session.memory", session))
    return str(stored["text"]) if stored["file"] == file else None


def save(tx: Transaction, session: str, file: str, text: str) -> None:
    """In the place of another file's: who speaks here reads another memory now."""
    data = json.dumps({"file": file, "text": text}, ensure_ascii=False)
    tx.run(
        "UPDATE session SET memory = ? WHERE id = ?",
        (tx.seal(data, "session.memory", session), session),
    )
