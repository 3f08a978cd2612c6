"""Small facts that a part remembers over a restart, by name."""

from sqlite3 import Connection

# A deletion of a person's data that is not done yet (gateway/ops/user_data.py).
DELETION = "deletion"
# The database is a backup that was restored and has not been opened since (store/restored.py).
RESTORED = "restored"


def get_state(connection: Connection, name: str) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def drop_state(connection: Connection, name: str) -> None:
    connection.execute("DELETE FROM meta WHERE name = ?", (name,))


def put_state(connection: Connection, name: str, value: str) -> None:
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET value = excluded.value",
        (name, value),
    )
