"""Journal of file changes of a gateway: rows in its database, contents in its folder."""

import asyncio
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from agent.undo.blob_store import BlobCipher, BlobStore
from agent.undo.change_log import ChangeLog
from gateway.store.cipher import Cipher
from gateway.store.port import Store
from gateway.store.repositories import file_changes

if TYPE_CHECKING:
    from agent.undo.ledger import UndoOperation, UndoResult
    from agent.undo.records import ChangeStep
    from gateway.store.files.file_store import SharedFiles
    from gateway.store.port import Transaction

P = ParamSpec("P")
T = TypeVar("T")


def open_change_log(
    database: Store, folder: Path, cipher: Cipher | None, shared: "SharedFiles | None" = None
) -> Callable[[], ChangeLog]:
    """Return a function that opens the journal on first use.

    Call this where the database's loop runs. With `shared`, other machines can undo too.
    """
    loop = asyncio.get_running_loop()

    @cache
    def open_once() -> ChangeLog:
        seal = BlobCipher(cipher.shut, cipher.open, cipher.derived("undo")) if cipher else None
        elsewhere = None
        if shared is not None:
            from gateway.sessions.shared_undo import UndoFiles

            elsewhere = UndoFiles(shared.undo)
        blobs = BlobStore(folder, seal=seal, shared=elsewhere)
        return ChangeLog(StoreLedger(database, loop), blobs)

    return open_once


class StoreLedger:
    """Implementation of `agent.undo.Ledger` that runs transactions in the database's thread."""

    def __init__(self, database: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._database = database
        self._loop = loop

    def add(self, step: "ChangeStep") -> None:
        self._run(file_changes.add, step)

    def steps(self, session: str) -> "list[ChangeStep]":
        return self._run(file_changes.steps, session)

    def begin(self, act: "UndoOperation") -> "UndoOperation":
        return self._run(file_changes.begin, act, time.time())

    def end(self, ending: "UndoResult") -> None:
        self._run(file_changes.end, ending)

    def _run(
        self,
        work: "Callable[Concatenate[Transaction, P], T]",
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        job = self._database.transact(work, *args, **kwargs)
        return asyncio.run_coroutine_threadsafe(job, self._loop).result()
