"""A transaction for tests of functions that run in one, on a real database."""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from gateway.store.cipher import Cipher
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.transaction import SqliteTransaction


class OpenTransaction(SqliteTransaction):
    """Every statement is stored at once, until one says BEGIN. `close` it, or use `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def after_commit(self, action: Callable[[], None]) -> None:
        action()

    def close(self) -> None:
        self._connection.close()

    def content(self) -> bytes:
        """The whole database as a file would hold it."""
        return self._connection.serialize()


def open_transaction(
    path: Path, *, check: bool = False, cipher: Cipher | None = None
) -> OpenTransaction:
    """On the database in `path`, which is made when it is not there."""
    return OpenTransaction(connect(path, check=check, cipher=cipher), cipher)
