"""Repository for small named values that survive a restart, and languages of people."""

from gateway.store.port import Transaction

# A deletion of a person's data that is not finished yet (gateway/ops/user_data.py).
DELETION = "deletion"

# The database is a backup that was restored and has not been opened since (restored_backup.py).
RESTORED = "restored"


def get_state(tx: Transaction, name: str) -> str | None:
    row = tx.first("SELECT value FROM meta WHERE name = ?", (name,))
    return row[0] if row else None


def drop_state(tx: Transaction, name: str) -> None:
    tx.run("DELETE FROM meta WHERE name = ?", (name,))


def put_state(tx: Transaction, name: str, value: str) -> None:
    tx.run(
        "INSERT INTO meta (name, value) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def client_languages(tx: Transaction) -> list[tuple[str, str | None, str | None]]:
    """Return principal, app language and chosen language of each person."""
    return tx.all("SELECT principal, client_language, chosen_language FROM language")


def record_client_language(tx: Transaction, principal: str, language: str) -> None:
    tx.run(
        "INSERT INTO language (principal, client_language) VALUES (?, ?)"
        " ON CONFLICT (principal) DO UPDATE SET client_language = excluded.client_language"
        " WHERE language.client_language IS NULL OR language.client_language <>"
        " excluded.client_language",
        (principal, language),
    )


def choose_language(tx: Transaction, principal: str, language: str | None) -> None:
    """Store the language that a person chose; None removes the choice."""
    tx.run(
        "INSERT INTO language (principal, chosen_language) VALUES (?, ?)"
        " ON CONFLICT (principal) DO UPDATE SET chosen_language = excluded.chosen_language",
        (principal, language),
    )
