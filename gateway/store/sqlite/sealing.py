"""Sealed texts in an SQLite database: which key they are sealed with."""

from pathlib import Path
from sqlite3 import Connection

from gateway.store.cipher import SEALED, Cipher
from gateway.store.errors import StoreError

_CHECK = "this is the key"
_PLACE = ("meta.value", "cipher")


def check_key(connection: Connection, path: Path, cipher: Cipher | None) -> None:
    """Raises `StoreError` for a database with another key, or with one too many or too few.

    Nothing is written. One that holds no message yet takes any key.
    """
    mark = mark_of(connection)
    if mark is None:
        if cipher is not None and not _is_empty(connection):
            raise StoreError(
                "the database {path} is not encrypted, but store.encryption_key_env is set to"
                " {name}",
                path=path,
                name=cipher.name,
                hint="Encrypt it with that key (`kore store rekey`), or remove the setting.",
            )
    elif cipher is None:
        raise StoreError(
            "the database {path} is encrypted, but store.encryption_key_env is not set",
            path=path,
            hint="Set it, or decrypt the database: `kore store rekey --plain --from VARIABLE`.",
        )
    elif not _fits(cipher, mark):
        raise StoreError(
            "the database {path} is encrypted with a different key from the one in {name}",
            path=path,
            name=cipher.name,
            hint="Set the key it was encrypted with; `kore store rekey` changes the key.",
        )


def mark_sealed(connection: Connection, cipher: Cipher | None) -> None:
    """Note which key the texts of this database are sealed with, if that is not known yet."""
    if cipher is not None and mark_of(connection) is None:
        connection.execute(
            "INSERT INTO meta (name, value) VALUES ('cipher', ?)", (cipher.seal(_CHECK, *_PLACE),)
        )


def mark_of(connection: Connection) -> str | None:
    """What shows which key the texts are sealed with; None when they are not."""
    if not _has_table(connection, "meta"):
        return None
    row = connection.execute("SELECT value FROM meta WHERE name = 'cipher'").fetchone()
    return row[0] if row else None


def _fits(cipher: Cipher, mark: str) -> bool:
    try:
        return cipher.unseal(mark, *_PLACE) == _CHECK
    except ValueError:
        return False


def _is_empty(connection: Connection) -> bool:
    return not any(
        connection.execute(f"SELECT EXISTS (SELECT 1 FROM {one.table})").fetchone()[0]
        for one in SEALED
        if _has_table(connection, one.table)
    )


def _has_table(connection: Connection, name: str) -> bool:
    row = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    return row is not None
