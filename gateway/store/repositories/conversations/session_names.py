"""Names of sessions: chosen by a person, or the first words of the conversation."""

from agent.types import Text
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction
from gateway.store.repositories.codecs import CONTENT, message_from_row

_NAME = "session.name"
_TITLE_CHARS = 50
# Number of characters that make a title, and of messages that are read for it at a time.
_TITLE_FROM_CHARS = 200
_TITLE_ROWS = 5


def sealed(tx: Transaction, session: str, name: str) -> str | None:
    """Return the column `name` of a row."""
    return tx.seal(name, _NAME, session)


def put(tx: Transaction, session: str, name: str) -> None:
    """Set the name of a session; '' means none."""
    tx.run("UPDATE session SET name = ? WHERE id = ?", (sealed(tx, session, name), session))


def opened(tx: Transaction, session: str, name: str) -> str:
    """Return the name in this column of a row; '' for none, or if Kore did not write it."""
    try:
        return str(tx.unseal(name, _NAME, session))
    except SealBroken:
        return ""


def title(tx: Transaction, session: str, name: str) -> str:
    """Return the name, or the first words, as one short line."""
    line = " ".join((opened(tx, session, name) or _first_words(tx, session)).split())
    return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…"


def _first_words(tx: Transaction, session: str) -> str:
    """Return the beginning of a person's first message that begins with text; '' without one."""
    after = 0
    query = f"SELECT {CONTENT} FROM message WHERE session = ? AND role = 'user' AND n > ?"
    while rows := tx.all(f"{query} ORDER BY n LIMIT {_TITLE_ROWS}", (session, after)):
        for row in rows:
            if words := _opening_words(tx, row):
                return words
        after = rows[-1][1]
    return ""


def _opening_words(tx: Transaction, row: Row) -> str:
    """Return the beginning of a message; '' if it does not begin with text or was changed."""
    try:
        message = message_from_row(tx, *row)
    except SealBroken:
        return ""
    # A turn that joins several messages begins with an empty text.
    is_said = bool(message.content) and isinstance(message.content[0], Text)
    return message.text[:_TITLE_FROM_CHARS] if is_said else ""
