"""The store as every room sees it: work runs in a transaction, and knows no database.

Work is a plain function that takes a `Transaction` first. SQL in it is the part of the language
that SQLite and PostgreSQL share, with `?` for values. The store may run a function twice (another
writer was faster, a group of transactions failed), so a function changes no memory: what has to
happen outside goes through `after_commit`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from gateway.store.errors import StoreCorrupt

P = ParamSpec("P")
T = TypeVar("T")
# The values of a statement, in the order of its question marks.
Args = Sequence[Any]
Row = tuple[Any, ...]


class SearchIndex(Protocol):
    """The words of texts, each under a number that its caller gives; it keeps no text."""

    def add(self, texts: Iterable[tuple[int, str]]) -> None: ...

    def remove(self, texts: Iterable[tuple[int, str]]) -> None:
        """Each text is the one that was added under its number."""
        ...

    def clear(self) -> None:
        """Nothing is left in it."""
        ...

    def matches(self, phrases: Sequence[str]) -> tuple[str, Sequence[str]]:
        """A query, to be joined with others, for the numbers (its column `id`) of the texts that
        have all these phrases, and its values. Each phrase has a word, and may end within one."""
        ...


class Transaction(Protocol):
    """Statements inside one transaction. Each raises what the database raises; the store turns that
    into a `StoreError` for the caller."""

    @property
    def search(self) -> SearchIndex: ...

    def one(self, sql: str, args: Args = ()) -> Row:
        """The row that there always is. Raises `LookupError` when there is none."""
        ...

    def first(self, sql: str, args: Args = ()) -> Row | None:
        """The first row, or None when there is none."""
        ...

    def all(self, sql: str, args: Args = ()) -> list[Row]: ...

    def run(self, sql: str, args: Args = ()) -> int:
        """Returns how many rows it changed."""
        ...

    def many(self, sql: str, rows: Iterable[Args]) -> None:
        """The statement once for each of `rows`."""
        ...

    def seal(self, text: str | None, column: str, *place: str | int | bytes | None) -> str | None:
        """What is stored for a text in `column` ("table.name") of the row at this place, which is
        the row's key and the columns that the text is bound to (`gateway.store.cipher.SEALED`):
        sealed for this place alone when the store has a key, else the text itself."""
        ...

    def unseal(self, stored: Any, column: str, *place: str | int | bytes | None) -> Any:
        """The text again. Raises `SealBroken`, and has it audited, when it was stored in another
        place, or it or a column that it is bound to was changed."""
        ...

    def after_commit(self, action: Callable[[], None]) -> None:
        """Call `action` on the event loop once the transaction is on disk, before the caller that
        awaits the work goes on; never when it is not stored. It must not fail."""
        ...


class Store(Protocol):
    """Where Kore keeps everything. `folder` is where files beside it belong."""

    @property
    def folder(self) -> Path: ...

    @property
    def damage(self) -> StoreCorrupt | None:
        """Set for good when the database turns out not to be whole."""
        ...

    async def transact(
        self,
        work: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The function's result, once its transaction is on disk; on an error nothing of it is.

        A cancelled caller still waits for the transaction to end. Raises `StoreError` for what the
        database refuses (a full disk, a damaged file, after `close`), and whatever `work` raises.
        """
        ...

    def is_held(self) -> bool:
        """Whether no other process can own the data by now; of a file always."""
        ...

    async def until_held(self) -> None:
        """Returns as soon as no other process can own the data, for what leaves Kore without a
        transaction. A process that was stopped for longer than its lease waits here until it has
        heard that the data are still its own. At once for a file."""
        ...

    async def until_replaced(self) -> None:
        """Returns once another process owns the data: nothing is stored here any more. Never for a
        file, which has one owner."""
        ...

    async def backup(self, target: Path) -> int:
        """Copy everything to a new file, between other work; returns its size in bytes.

        Raises `StoreError`: for a file that exists, and for a copy that does not verify.
        """
        ...

    async def rewrite(self) -> None:
        """Leave nothing on the disk of what was deleted; nothing else runs meanwhile. Raises
        `StoreError`: it needs as much room again."""
        ...

    def upgrade_copies(self) -> Sequence[Path]:
        """The copies of everything that upgrades have left, oldest first."""
        ...

    async def close(self) -> None: ...


class WorkerStore(Store, Protocol):
    """A store that a worker has joined beside the owner of the data, as the number `worker` and
    called `name`; `place` is the address without secrets."""

    @property
    def worker(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> str: ...

    def say(self, state: Mapping[str, Any]) -> None:
        """What the worker says of itself from its next beat on."""
        ...

    async def leave(self) -> None:
        """It counts no more: nothing can be stored from now on."""
        ...
