"""Which language somebody is spoken to in."""

from sqlite3 import Connection


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
