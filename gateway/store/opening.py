"""Open the database at an address: a SQLite file or a PostgreSQL server."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from gateway.store.cipher import Cipher, cipher_of
from gateway.store.copying import WholeDatabase, copy_into
from gateway.store.errors import StoreError, catalogue_text
from gateway.store.port import Store, Transaction
from gateway.store.sqlite.backup import take
from gateway.store.sqlite.engine import SqliteStore
from gateway.store.sqlite.rekey import discard_copies
from gateway.store.sqlite.whole import WholeSqlite

if TYPE_CHECKING:
    from gateway.config import Settings
    from gateway.store.postgres.lease import ServerWatch
    from gateway.store.postgres.whole import WholePostgres
    from gateway.store.postgres.worker_store import PostgresWorkerStore

_SQLITE = "sqlite:///"


def store_cipher(settings: "Settings", environ: Mapping[str, str]) -> Cipher | None:
    """Return the cipher of the database; None if it is not encrypted.

    Raises `EncryptionKeyError`, which names the file or variable with the setting: it may belong to
    another program.
    """
    place = settings.places.get(("store", "encryption_key_env"))
    name = "store.encryption_key_env" + (f" ({place})" if place else "")
    return cipher_of(settings.store.encryption_key_env, environ, name)


def open_store(  # noqa: PLR0913 - what decides who owns it, by name
    url: str,
    home: Path,
    *,
    check: bool,
    cipher: Cipher | None,
    lease_s: float | None = None,
    watch: "ServerWatch | None" = None,
    has_workers: bool = False,
) -> Store:
    """Open, create or upgrade the database, and take ownership of it.

    `home` is the folder for files next to a database that is not a file; `check` verifies a file
    first, for use after an unclean exit. On a server, an owner that is silent for `lease_s` (None:
    15) may be replaced by a process that has a `watch` on the server. Workers continue to run with
    an owner that `has_workers`; otherwise they end.

    Raises `StoreError`, including `StoreInUse`, and `ConfigError` if PostgreSQL's library is not
    installed.
    """
    if url.startswith(_SQLITE):
        path = Path(url.removeprefix(_SQLITE))
        discard_copies(path)
        return SqliteStore.open(path, check=check, cipher=cipher)
    whole = whole_postgres(url)
    from gateway.store.postgres.engine import PostgresOptions, PostgresStore

    options = PostgresOptions(watch=watch, has_workers=has_workers)
    if lease_s is not None:
        options = replace(options, lease_s=lease_s)

    def write_copy(tx: Transaction, target: Path) -> None:
        copy_into(tx, whole, WholeSqlite(target), cipher)

    return PostgresStore.open(url, home, cipher=cipher, write_copy=write_copy, options=options)


def join_store(
    url: str, home: Path, *, cipher: Cipher | None, lease_s: float
) -> "PostgresWorkerStore":
    """Join the owner of a database on a server as a worker.

    Raises `StoreError`, also if its tables are of another version, and `ConfigError` if
    PostgreSQL's library is not installed.
    """
    whole = whole_postgres(url)
    from gateway.store.postgres.engine import PostgresOptions
    from gateway.store.postgres.worker_store import PostgresWorkerStore

    def write_copy(tx: Transaction, target: Path) -> None:
        copy_into(tx, whole, WholeSqlite(target), cipher)

    options = PostgresOptions(lease_s=lease_s)
    return PostgresWorkerStore.join(
        url, home, cipher=cipher, write_copy=write_copy, options=options
    )


def copy_unowned(url: str, target: Path) -> None:
    """Copy a snapshot of a database to a new SQLite file, without owning it and without its key.

    Raises `StoreError`, and `ConfigError` if PostgreSQL's library is not installed.
    """
    if url.startswith(_SQLITE):
        take(Path(url.removeprefix(_SQLITE)), target)
        return
    whole = whole_postgres(url)
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        with whole.snapshot() as reading:
            copy_into(reading, whole, WholeSqlite(part), None)
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)


def whole_database(url: str, *, exists: bool = False) -> WholeDatabase:
    """Return a database for a copy. Raises `StoreError` if it must exist but does not."""
    if not url.startswith(_SQLITE):
        return whole_postgres(url)
    path = Path(url.removeprefix(_SQLITE))
    if exists and not path.exists():
        raise StoreError("{path}: no such database", path=path)
    return WholeSqlite(path)


def whole_postgres(url: str) -> "WholePostgres":
    """Return a PostgreSQL database. Raises `ConfigError` if psycopg is not installed."""
    _require_psycopg()
    from gateway.store.postgres.whole import WholePostgres

    return WholePostgres(url)


def _require_psycopg() -> None:
    try:
        import psycopg  # noqa: F401 - whether it is there
    except ImportError as exc:
        raise ConfigError(
            catalogue_text("store.url names a PostgreSQL server, but psycopg is not installed"),
            hint="pip install 'kore-assistant[postgres]'",
        ) from exc
