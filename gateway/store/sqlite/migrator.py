"""Creation, upgrade and check of SQLite databases, with a copy of the file before an upgrade.

Creating a database is one transaction, as is each migration together with its number, so after a
kill at any moment the database is in the old or in the new state.
"""

import os
import sqlite3
import time
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from gateway.store.errors import StoreBusy, StoreError, catalogue_text
from gateway.store.schema import Schema, foreign

SCHEMA = Schema(Path(__file__).parent)
MAX_COPIES = 3
FOLDER = "backups"
_PREFIX, _END, _PART = "before-upgrade-", ".db", ".part"


def upgrade(connection: sqlite3.Connection, path: Path, schema: Schema = SCHEMA) -> None:
    """Create the tables of a new database, or apply the migrations that an older one needs.

    Raises `StoreError` like `require_supported`, or if the copy cannot be written; then nothing has
    changed.
    """
    if _is_new(connection):
        _run(connection, schema.tables, schema.numbers, schema.newest)
        return
    applied = _applied(connection, path)
    pending = schema.pending(applied, path)
    if pending:
        keep_copy(connection, path)
    for number, file in pending.items():
        applied.add(number)
        _run(connection, file.read_text("utf-8"), [number], max(applied))


def require_supported(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `StoreError` for a database that is newer, too old or of another program."""
    if not _is_new(connection):
        SCHEMA.pending(_applied(connection, path), path)


def _is_new(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT 1 FROM sqlite_schema").fetchone()


def _run(
    connection: sqlite3.Connection, script: str, numbers: Collection[int], newest: int
) -> None:
    """Run a script and note its numbers in one transaction."""
    values = ", ".join(f"({number}, {time.time()!r})" for number in numbers)
    connection.executescript(
        f"BEGIN IMMEDIATE;\n{script}\n"
        f"INSERT INTO migration (number, applied_at) VALUES {values};\n"
        f"PRAGMA user_version={newest};\nCOMMIT;"
    )


def keep_copy(connection: sqlite3.Connection, path: Path) -> Path:
    """Copy the database into the folder of copies and delete all but the newest copies.

    A copy gets its name once it is complete. Raises `StoreError`.
    """
    folder = path.with_name(FOLDER)
    target = folder / f"{_PREFIX}{time.strftime('%Y%m%d-%H%M%S')}{_END}"
    part = target.with_suffix(_PART)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for old in folder.glob(f"{_PREFIX}*{_PART}"):
            old.unlink()
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(part)) as copy:
            connection.backup(copy)
            verdict = copy.execute("PRAGMA quick_check").fetchone()[0]
        if verdict != "ok":
            raise StoreError(
                "the copy of {path} failed verification: {verdict}", path=path, verdict=verdict
            )
        _sync(part)
        part.rename(target)
        _sync(folder)
        for old in copies(path)[:-MAX_COPIES]:
            old.unlink()
    except (OSError, sqlite3.Error) as exc:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise StoreError(
            "the database {path} needs an upgrade, but it could not be backed up first: {reason}",
            path=path,
            reason=exc,
            hint="Free some disk space or make the folder writable. Nothing was changed.",
        ) from exc
    return target


def copies(path: Path) -> list[Path]:
    """Return the copies that upgrades of this database have left, oldest first."""
    return sorted(path.with_name(FOLDER).glob(f"{_PREFIX}*{_END}"))


def _applied(connection: sqlite3.Connection, path: Path) -> set[int]:
    """Return the numbers of the migrations in a database.

    Raises `StoreError` for a database of another program.
    """
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    if "inbox" not in tables:
        raise foreign(path, catalogue_text("Name a file for Kore alone in store.url."))
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if "migration" not in tables:
        return {version}
    numbers = {number for (number,) in connection.execute("SELECT number FROM migration")}
    return numbers | ({version} if version > max(numbers, default=0) else set())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_file(path: Path) -> tuple[str, int | None]:
    """Return "ok" or the damage of a database file, and the number of its schema.

    The file is opened for reading only. Raises `StoreBusy` if another program has locked it, and
    `StoreError` if this Kore cannot open its schema.
    """
    try:
        with closing(
            sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1)
        ) as database:
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if verdict == "ok":
                require_supported(database, path)
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            raise StoreBusy("the database {path} is in use by another program", path=path) from exc
        return str(exc), None
    return str(verdict), int(version)
