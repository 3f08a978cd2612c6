"""Names of sessions: the one that a person gave, or the first words of the conversation."""

from agent.types import Text
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction
from gateway.store.repositories.codecs import CONTENT, message_from_row

_NAME = "session.name"
_TITLE_CHARS = 50
# A title is made of so many characters, and looked for in so many messages at once.
_TITLE_FROM_CHARS = 200
_TITLE_ROWS = 5


def sealed(tx: Transaction, session: str, name: str) -> str | None:
    """Return the column `name` of a row."""
    return tx.seal(name, _NAME, session)


def put(tx: Transaction, session: str, name: str) -> None:
    """Set the name of a session; '' means none."""
    tx.run("UPDATE session SET name = ? WHERE id = ?", (sealed(tx, session, name), session))


def opened(tx: Transaction, session: str, name: str) -> str:
    """Return the name in this column of a row; '' for none, also where Kore did not write it."""
    try:
        return str(tx.unseal(name, _NAME, session))
    except SealBroken:
        return ""


def title(tx: Transaction, session: str, name: str) -> str:
    """Return the name, or the first words, as one line of bearable length."""
    line = " ".join((opened(tx, session, name) or _first_words(tx, session)).split())
    return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…"


def _first_words(tx: Transaction, session: str) -> str:
    """Of the first message of a person that begins with text; '' without one."""
    after = 0
    query = f"SELECT {CONTENT} FROM message WHERE session = ? AND role = 'user' AND n > ?"
    while rows := tx.all(f"{query} ORDER BY n LIMIT {_TITLE_ROWS}", (session, after)):
        for row in rows:
            if words := _opening_words(tx, row):
                return words
        after = rows[-1][1]
    return ""


def _opening_words(tx: Transaction, row: Row) -> str:
    """Of a message that begins with text; '' for any other, and for one that Kore did not write."""
    try:
        message = message_from_row(tx, *row)
    except SealBroken:
        return ""
    # Several messages that a turn joins begin with an empty text.
    is_said = bool(message.content) and isinstance(message.content[0], Text)
    return message.text[:_TITLE_FROM_CHARS] if is_said else ""
