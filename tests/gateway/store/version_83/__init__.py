"""Data of the version with schema 83 (commit 40c09bfc), the oldest supported version.

`plain.zip` and `sealed.zip` were written by `kore backup` of SQLite, `postgres.sql` by `pg_dump` of
a database with the content of `plain.zip`. They have a few conversations and a row in nearly every
table.
"""

import zipfile
from contextlib import closing
from pathlib import Path

from gateway.store.cipher import Cipher
from gateway.store.postgres.connection import connect
from tests import postgres_server

FOLDER = Path(__file__).parent
PLAIN, SEALED = FOLDER / "plain.zip", FOLDER / "sealed.zip"
KEY = bytes(range(32))
CIPHER = Cipher(KEY, "KEY")


def live_database(engine: str, folder: Path, backup: Path = PLAIN) -> str:
    """Put a database left by that version into `folder` and return its URL."""
    if engine == "postgres":
        address = postgres_server.server().create_empty_database()
        with closing(connect(address)) as connection:
            connection.execute((FOLDER / "postgres.sql").read_bytes())
        return address
    with zipfile.ZipFile(backup) as packed:
        packed.extract("kore.db", folder)
    return f"sqlite:///{folder / 'kore.db'}"
