"""Interface of the store: work runs in a transaction, independent of the engine.

Work is a plain function with a `Transaction` as its first argument. Its SQL is limited to the
common subset of SQLite and PostgreSQL, with `?` for values. The store may run a function twice
(after a conflict, or if a group of transactions failed), so a function must not change anything in
memory: side effects go through `after_commit`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from gateway.store.errors import StoreCorrupt

P = ParamSpec("P")
T = TypeVar("T")
# Values of a statement, in the order of its question marks.
Args = Sequence[Any]
Row = tuple[Any, ...]


class SearchIndex(Protocol):
    """Index of the words of texts, under numbers that the caller assigns; it stores no text."""

    def add(self, texts: Iterable[tuple[int, str]]) -> None: ...

    def remove(self, texts: Iterable[tuple[int, str]]) -> None:
        """Remove texts. Each text must equal the text that was added under its number."""
        ...

    def clear(self) -> None:
        """Remove all texts."""
        ...

    def matches(self, phrases: Sequence[str]) -> tuple[str, Sequence[str]]:
        """Return a query for the texts that have all these phrases, and the values of the query.

        The query can be joined with others; its column `id` contains the numbers of the texts. Each
        phrase has at least one word, and its last word may be a prefix.
        """
        ...


class Transaction(Protocol):
    """Statements inside one transaction.

    Each raises the database's error, which the store converts to a `StoreError` for the caller.
    """

    @property
    def search(self) -> SearchIndex: ...

    def one(self, sql: str, args: Args = ()) -> Row:
        """Return a row that always exists. Raises `LookupError` if there is none."""
        ...

    def first(self, sql: str, args: Args = ()) -> Row | None:
        """Return the first row, or None if there is none."""
        ...

    def all(self, sql: str, args: Args = ()) -> list[Row]: ...

    def run(self, sql: str, args: Args = ()) -> int:
        """Run a statement; return the number of changed rows."""
        ...

    def many(self, sql: str, rows: Iterable[Args]) -> None:
        """Run the statement once for each of `rows`."""
        ...

    def seal(self, text: str | None, column: str, *place: str | int | bytes | None) -> str | None:
        """Return the stored form of a text in `column` ("table.name") of the row at `place`.

        `place` is the row's key and the columns that the text is bound to
        (`gateway.store.cipher.SEALED`). With a key, the text is sealed for this place only; without
        a key, it is returned unchanged.
        """
        ...

    def unseal(self, stored: Any, column: str, *place: str | int | bytes | None) -> Any:
        """Return the text of a stored value.

        Raises `SealBroken`, which is also audited, if the text was stored in another place, or if
        the text or a column that it is bound to was changed.
        """
        ...

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call `action` on the event loop once the transaction is on disk; it must not fail.

        The call happens before the caller that awaits the work continues, and never for a
        transaction that is not stored.
        """
        ...


class Store(Protocol):
    """Storage of all of Kore's data; `folder` is for files that belong next to it."""

    @property
    def folder(self) -> Path: ...

    @property
    def damage(self) -> StoreCorrupt | None:
        """Error that is set permanently once the database is found to be damaged."""
        ...

    async def transact(
        self,
        work: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the function's result once its transaction is on disk; an error stores nothing.

        A cancelled caller still waits for the transaction to end. Raises `StoreError` for errors of
        the database (a full disk, a damaged file, after `close`), and every error that `work`
        raises.
        """
        ...

    def is_held(self) -> bool:
        """Return whether no other process can own the data yet; always true for a file."""
        ...

    async def until_held(self) -> None:
        """Return as soon as no other process can own the data; immediately for a file.

        For output that leaves Kore without a transaction. A process that was stopped for longer
        than its lease waits here until it has confirmed that it still owns the data.
        """
        ...

    async def until_replaced(self) -> None:
        """Return once another process owns the data and nothing can be stored here any more.

        Never returns for a file, which has one owner.
        """
        ...

    async def backup(self, target: Path) -> int:
        """Copy everything to a new file, between other work; return its size in bytes.

        Raises `StoreError` if the file exists or the copy fails verification.
        """
        ...

    async def rewrite(self) -> None:
        """Remove all traces of deleted data from the disk; nothing else runs meanwhile.

        Raises `StoreError`, for example without as much free space as the data use.
        """
        ...

    def upgrade_copies(self) -> Sequence[Path]:
        """Return the copies of the database that upgrades have left, oldest first."""
        ...

    async def close(self) -> None: ...


class WorkerStore(Store, Protocol):
    """Store of a worker that shares the database with its owner.

    `worker` is the number of the worker, `name` its name and `place` the address without secrets.
    """

    @property
    def worker(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> str: ...

    def say(self, state: Mapping[str, Any]) -> None:
        """Set the state that the worker reports, starting with its next heartbeat."""
        ...

    async def leave(self) -> None:
        """Deregister the worker: it can store nothing from now on."""
        ...
