"""Sealed texts in a database: what a transaction seals, and which key the texts have.

Both engines store the same: text in Base64, and in the table `meta` a sentence that only the right
key opens.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from gateway.store.cipher import SEALED, SEALED_PLACES, Cipher
from gateway.store.errors import StoreError, seal_broken
from gateway.store.port import Args, Row, Transaction

_CHECK = "this is the key"
_PLACE = ("meta.value", "cipher")


class SealingTransaction(ABC):
    """What the transactions of all engines have in common; `first` is the engine's own."""

    def __init__(self, cipher: Cipher | None = None) -> None:
        self._cipher = cipher
        self.actions: list[Callable[[], None]] = []

    @abstractmethod
    def first(self, sql: str, args: Args = ()) -> Row | None: ...

    def one(self, sql: str, args: Args = ()) -> Row:
        row = self.first(sql, args)
        if row is None:
            raise LookupError(f"no row: {sql}")
        return row

    def seal(self, text: str | None, column: str, *key: str | int) -> str | None:
        if column not in SEALED_PLACES:
            raise LookupError(f"{column} is no column of `gateway.store.cipher.SEALED`")
        return self._cipher.seal(text, SEALED_PLACES[column], *key) if self._cipher else text

    def unseal(self, stored: Any, column: str, *key: str | int) -> Any:
        if self._cipher is None:
            return stored
        try:
            return self._cipher.unseal(stored, SEALED_PLACES[column], *key)
        except ValueError:
            raise seal_broken() from None

    def after_commit(self, action: Callable[[], None]) -> None:
        self.actions.append(action)


def check_key(
    tx: Transaction, place: object, cipher: Cipher | None, tables: Collection[str]
) -> None:
    """Raises `StoreError` for a database with another key, or with one too many or too few.

    `place` names the database, `tables` are those that it has by now. Nothing is written. One that
    holds no message yet takes any key.
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
    """Note which key the texts of this database are sealed with, if that is not known yet."""
    if cipher is not None and key_mark(tx, ("meta",)) is None:
        tx.run(
            "INSERT INTO meta (name, value) VALUES ('cipher', ?)", (cipher.seal(_CHECK, *_PLACE),)
        )


def key_mark(tx: Transaction, tables: Collection[str]) -> str | None:
    """What shows which key the texts are sealed with; None when they are not."""
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
        tx.one(f"SELECT EXISTS (SELECT 1 FROM {one.table})")[0]
        for one in SEALED
        if one.table in tables
    )
