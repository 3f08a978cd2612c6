"""Upgrading a database: the numbered files that it has not seen, behind a copy that is kept.

Each file is one transaction together with the note that it was applied, so that a kill at any
moment leaves a database of before or after it. Which ones were applied is remembered by number:
they may come in any order, with gaps.

A database without tables starts from `new_database.sql`, which has the tables of many migrations at
once: renaming columns one by one takes SQLite a hundred times as long.
"""

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from gateway.store.errors import StoreError

COPIES_KEPT = 3
FOLDER = "backups"
_PREFIX, _END, _PART = "before-upgrade-", ".db", ".part"
_APPLIED = (
    "CREATE TABLE IF NOT EXISTS migration"
    " (number INTEGER PRIMARY KEY, applied_at REAL NOT NULL) STRICT;"
)


def scripts() -> dict[int, Path]:
    """Every migration that this Kore knows, by its number, in their order."""
    folder = Path(__file__).parent / "migrations"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return {int(name[:4]): folder / name for name in names}


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a database up to this Kore. Raises `StoreError`: for a newer one, and when the copy
    that is made before cannot be written; then nothing has changed."""
    available = scripts()
    is_new = not connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    if is_new:
        new = Path(__file__).with_name("new_database.sql").read_text("utf-8")
        connection.executescript(f"BEGIN IMMEDIATE;\n{new}\nCOMMIT;")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    applied = _applied(connection, version)
    if strange := applied - set(available):
        raise StoreError(
            "the database {path} was created by a newer Kore (schema {found}; this version"
            " supports {supported})",
            path=path,
            found=max(strange),
            supported=max(available),
            hint="Install the newer version again.",
        )
    waiting = [number for number in available if number not in applied]
    if not waiting:
        return
    if applied and not is_new:
        keep_copy(connection, path)
    for number in waiting:
        apply(connection, number, applied)


def apply(connection: sqlite3.Connection, number: int, applied: set[int]) -> None:
    """Apply one migration, which `applied` has from then on."""
    applied.add(number)
    values = ", ".join(f"({one}, {time.time()!r})" for one in sorted(applied))
    connection.executescript(
        f"BEGIN IMMEDIATE;\n{scripts()[number].read_text('utf-8')}\n{_APPLIED}\n"
        f"INSERT OR IGNORE INTO migration (number, applied_at) VALUES {values};\n"
        f"PRAGMA user_version={max(applied)};\nCOMMIT;"
    )


def keep_copy(connection: sqlite3.Connection, path: Path) -> Path:
    """Copy the database into the folder of copies beside it; only the newest ones are kept.

    A copy has its name only once it is whole. Raises `StoreError`.
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
        for old in copies(path)[:-COPIES_KEPT]:
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
    """The copies that upgrades of this database have left, oldest first."""
    return sorted(path.with_name(FOLDER).glob(f"{_PREFIX}*{_END}"))


def _applied(connection: sqlite3.Connection, version: int) -> set[int]:
    """Numbers of the migrations that were applied. Older ones counted without gaps."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migration'").fetchone():
        numbers = {number for (number,) in connection.execute("SELECT number FROM migration")}
        return numbers | ({version} if version > max(numbers, default=0) else set())
    return set(range(1, version + 1))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
