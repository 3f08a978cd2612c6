"""Contents for undo in a shared file store, for `agent.undo.SharedBlobs`."""

import logging
import time
from collections.abc import Callable
from io import BytesIO

from agent.errors import ToolError
from agent.undo.restore import MAX_BYTES
from gateway.store.files.file_store import FileStore
from gateway.store.files.port import FileStoreError, StoredFileDamaged, StoredFileMissing

log = logging.getLogger(__name__)

_REST_S = 30.0


class UndoFiles:
    """Implementation of `SharedBlobs` with a file store."""

    def __init__(self, files: FileStore, clock: Callable[[], float] = time.monotonic) -> None:
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
            self._rests_until = self._clock() + _REST_S
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
