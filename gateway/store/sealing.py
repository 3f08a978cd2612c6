"""Sealing of texts in transactions, and the check of a database's key.

Both engines store texts in Base64 and, in the table `meta`, a sentence that only the right key
decrypts.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from agent.records import frozen
from gateway.store.cipher import SEALED, SEALED_COLUMNS, Cipher, Sealed, Value
from gateway.store.errors import SealBroken, StoreError
from gateway.store.port import Args, Row, Transaction
from gateway.store.repositories import audit_outbox
from gateway.store.repositories.audit_outbox import AuditNote

log = logging.getLogger(__name__)

_CHECK = "this is the key, and every text is sealed"
_PLACE = ("meta.value", "cipher")


@frozen
class BrokenSeal:
    """Table and key of a row that was changed outside of Kore."""

    table: str
    key: str


class SealedTexts:
    """Texts of sealed columns under one key; without a key, they are stored as plain text.

    `broken` collects the rows that could not be opened, for `report_broken`.
    """

    def __init__(self, cipher: Cipher | None) -> None:
        self._cipher = cipher
        self.broken: list[BrokenSeal] = []

    def seal(self, text: str | None, column: str, *place: Value) -> str | None:
        sealed = _sealed(column, place)
        if self._cipher is None:
            return text
        return self._cipher.seal(text, sealed.place(_name(column)), *place)

    def unseal(self, stored: Any, column: str, *place: Value) -> Any:
        if self._cipher is None:
            return stored
        sealed = _sealed(column, place)
        try:
            if stored is None and _name(column) not in sealed.optional:
                raise ValueError("a text is missing")
            return self._cipher.unseal(stored, sealed.place(_name(column)), *place)
        except ValueError:
            key = ", ".join(map(str, place[: len(sealed.key)]))
            self.broken.append(BrokenSeal(sealed.table, key))
            raise SealBroken from None


class SealingTransaction(SealedTexts, ABC):
    """Common parts of the transactions of both engines."""

    def __init__(self, cipher: Cipher | None = None) -> None:
        super().__init__(cipher)
        self.actions: list[Callable[[], None]] = []

    @abstractmethod
    def first(self, sql: str, args: Args = ()) -> Row | None: ...

    def one(self, sql: str, args: Args = ()) -> Row:
        row = self.first(sql, args)
        if row is None:
            raise LookupError(f"no row: {sql}")
        return row

    def after_commit(self, action: Callable[[], None]) -> None:
        self.actions.append(action)


def _name(column: str) -> str:
    """Return the name of a column without its table."""
    return column.partition(".")[2]


def _sealed(column: str, place: tuple[Value, ...]) -> Sealed:
    """Return the entry of a sealed column.

    Raises `LookupError` for another column, or for a place with the wrong number of values.
    """
    sealed = SEALED_COLUMNS.get(column)
    if sealed is None:
        raise LookupError(f"{column} is not a column of `gateway.store.cipher.SEALED`")
    if len(place) != len(sealed.key) + len(sealed.bound):
        raise LookupError(f"{column} is bound to {(*sealed.key, *sealed.bound)}")
    return sealed


def report_broken(tx: Transaction, broken: Iterable[BrokenSeal]) -> None:
    """Report rows that were changed outside of Kore in the log and in the audit log."""
    for seal in broken:
        row = f"the row {seal.key} of {seal.table}"
        reason = f"{row} was changed outside of Kore and is not used"
        log.error("%s", reason)
        params = {"table": seal.table, "key": seal.key}
        audit_outbox.put(tx, AuditNote(time.time(), "seal", reason, params, allowed=False))


def resealed(
    item: Sealed, rows: Iterable[Row], source: Transaction, target: Transaction
) -> Iterator[Row]:
    """Yield the values of `one.update` for each row of `one.select`.

    The values are opened with the key of `source` and sealed with the key of `target`.
    """
    length = len(item.key) + len(item.bound)
    columns = [f"{item.table}.{name}" for name in item.columns]
    for row in rows:
        place, texts = row[:length], row[length:]
        opened = [
            source.unseal(text, column, *place) for column, text in zip(columns, texts, strict=True)
        ]
        sealed = [
            target.seal(text, column, *place) for column, text in zip(columns, opened, strict=True)
        ]
        yield *sealed, *row[: len(item.key)]


def check_key(
    tx: Transaction, place: object, cipher: Cipher | None, tables: Collection[str]
) -> None:
    """Raise `StoreError` unless the texts of a database are sealed with `cipher`.

    Without a cipher, the texts must not be sealed. A database without any text accepts every key.
    `place` names the database in the error; `tables` are the tables that exist. Writes nothing.
    """
    mark = key_mark(tx, tables)
    if mark is None:
        if cipher is not None and not _is_empty(tx, tables):
            raise StoreError(
                "the database {path} is not encrypted, but store.encryption_key_env is set to"
                " {name}",
                path=place,
                name=cipher.name,
                hint="Encrypt it with that key (`kore store rekey`), or remove the setting.",
            )
    elif cipher is None:
        raise StoreError(
            "the database {path} is encrypted, but store.encryption_key_env is not set",
            path=place,
            hint="Set it, or decrypt the database: `kore store rekey --plain --from VARIABLE`.",
        )
    elif not _fits(cipher, mark):
        raise StoreError(
            "the database {path} is encrypted with a different key from the one in {name}",
            path=place,
            name=cipher.name,
            hint="Set the key it was encrypted with; `kore store rekey` changes the key.",
        )


def mark_sealed(tx: Transaction, cipher: Cipher | None) -> None:
    """Store the mark of the key in a database without a mark."""
    if cipher is not None and key_mark(tx, ("meta",)) is None:
        mark = cipher.seal(_CHECK, *_PLACE)
        tx.run("INSERT INTO meta (name, value) VALUES ('cipher', ?)", (mark,))


def key_mark(tx: Transaction, tables: Collection[str]) -> str | None:
    """Return the sealed sentence that only the right key opens; None without encryption."""
    if "meta" not in tables:
        return None
    row = tx.first("SELECT value FROM meta WHERE name = 'cipher'")
    return row[0] if row else None


def _fits(cipher: Cipher, mark: str) -> bool:
    try:
        return cipher.unseal(mark, *_PLACE) == _CHECK
    except ValueError:
        return False


def _is_empty(tx: Transaction, tables: Collection[str]) -> bool:
    return not any(
        tx.one(f"SELECT EXISTS (SELECT 1 FROM {sealed.table})")[0]
        for sealed in SEALED
        if sealed.table in tables
    )
