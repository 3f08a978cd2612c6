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


def client_languages(connection: Connection) -> list[tuple[str, str | None, str | None]]:
    """Principal, the language of their app, the language that they chose."""
    return connection.execute("SELECT principal, heard, chosen FROM language").fetchall()


def record_client_language(connection: Connection, principal: str, language: str) -> None:
    connection.execute(
        "INSERT INTO language (principal, heard) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET heard = excluded.heard WHERE heard IS NOT excluded.heard",
        (principal, language),
    )


def choose_language(connection: Connection, principal: str, language: str | None) -> None:
    """None takes the choice back."""
    connection.execute(
        "INSERT INTO language (principal, chosen) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET chosen = excluded.chosen",
        (principal, language),
    )
