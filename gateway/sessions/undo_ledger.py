"""Journal of file changes of a gateway: rows in its database, contents in its folder.

Several machines share the contents in a file store.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from agent.errors import ToolError
from agent.undo.blob_store import BlobCipher, BlobStore
from agent.undo.change_log import ChangeLog
from agent.undo.restore import MAX_BYTES
from gateway.store.cipher import Cipher
from gateway.store.files.port import FileStoreError, StoredFileDamaged, StoredFileMissing
from gateway.store.port import Store
from gateway.store.repositories import file_changes

if TYPE_CHECKING:
    from agent.undo.ledger import UndoOperation, UndoResult
    from agent.undo.records import ChangeStep
    from gateway.store.files.file_store import FileStore, SharedFiles
    from gateway.store.port import Transaction

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

# Pause without requests to a file store after a failure.
_RETRY_INTERVAL_S = 30.0


def open_change_log(
    database: Store, folder: Path, cipher: Cipher | None, shared: "SharedFiles | None" = None
) -> Callable[[], ChangeLog]:
    """Return a function that opens the journal on first use.

    Call this where the database's loop runs. With `shared`, other machines can undo too.
    """
    loop = asyncio.get_running_loop()

    @cache
    def open_once() -> ChangeLog:
        seal = None
        if cipher is not None:
            key = cipher.derived("undo")
            seal = BlobCipher(cipher.seal_bytes, cipher.unseal_bytes, key)
        elsewhere = None
        if shared is not None:
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


class UndoFiles:
    """Implementation of `SharedBlobs` with a file store."""

    def __init__(self, files: "FileStore", clock: Callable[[], float] = time.monotonic) -> None:
        self._files = files
        self._clock = clock
        self._rests_until = 0.0

    def put(self, name: str, data: bytes) -> None:
        # Avoid a wait at every change while the store does not respond.
        if self._clock() < self._rests_until:
            raise ToolError(f"{self._files.place} did not answer a moment ago")
        try:
            digest = self._files.put(data)
        except FileStoreError as exc:
            self._rests_until = self._clock() + _RETRY_INTERVAL_S
            raise ToolError(str(exc)) from exc
        assert digest == name, "both take the same fingerprint"

    def get(self, name: str) -> bytes | None:
        content = BytesIO()
        try:
            self._files.fetch(name, content, MAX_BYTES)
        except StoredFileMissing:
            return None
        except StoredFileDamaged as exc:
            log.error("an earlier content cannot be restored: %s", exc)
            return None
        except FileStoreError as exc:
            raise ToolError(str(exc)) from exc
        return content.getvalue()

    def has(self, name: str) -> bool:
        try:
            return self._files.exists(name)
        except FileStoreError as exc:
            raise ToolError(str(exc)) from exc
