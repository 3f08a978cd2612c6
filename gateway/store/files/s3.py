"""Objects in a bucket of an S3-compatible store."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from agent.records import frozen
from gateway.core.addresses import BucketAddress
from gateway.store.errors import catalogue_text
from gateway.store.files.port import (
    UNREACHABLE,
    FileStoreUnavailable,
    StoredObject,
    is_object_name,
    missing_error,
)

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Store

T = TypeVar("T")

# Larger files are sent in parts; this many bytes are in memory, and as many in transit.
_PART_BYTES = 8 * 2**20
_READ_BYTES = 2**20
_PARTS_AT_ONCE = 2
_LONGEST_S = 3_600.0
_STATUS = re.compile(r"status(?: code)?:? ?(\d{3})", re.IGNORECASE)
_MISSING_BUCKET = "NoSuchBucket"
# Reasons for connection errors, by a part of the library's message.
_REASONS = {
    "dns": "the host was not found",
    "connection refused": "the connection was refused",
    "timed out": "no answer in time",
    "timeout": "no answer in time",
    "certificate": "its certificate is not trusted",
    "connect": "no connection could be made",
    "error sending request": "no connection could be made",
}
_KEYS = catalogue_text(
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that may read, write, list and delete"
    " there."
)
_NETWORK = catalogue_text("Check the endpoint in store.files and the network.")


@frozen
class RetryLimits:
    """Limits for retries of a request; the waits between retries grow.

    `silence_s` is the longest time without data from the server.
    """

    retries: int = 6
    total_s: float = 20.0
    connect_s: float = 5.0
    silence_s: float = 30.0


class S3Objects:
    """Implements `ObjectStore`. The library takes access keys from the environment."""

    def __init__(self, where: BucketAddress, limits: RetryLimits | None = None) -> None:
        self._where = where
        self._limits = limits or RetryLimits()
        self._client: S3Store | None = None

    @property
    def place(self) -> str:
        return str(self._where)

    def write(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        import obstore

        key, store = self._key(name), self._open()
        source = _Source(pieces)
        if size_bytes <= _PART_BYTES:
            data = b"".join(source)
            self._call(lambda: obstore.put(store, key, data, use_multipart=False))
            return
        try:
            self._call(
                lambda: obstore.put(
                    store,
                    key,
                    source,
                    use_multipart=True,
                    chunk_size=_PART_BYTES,
                    max_concurrency=_PARTS_AT_ONCE,
                )
            )
        except FileStoreUnavailable:
            if source.error is not None:
                raise source.error from None
            raise

    @contextmanager
    def read(self, name: str) -> Iterator[Iterator[bytes]]:
        import obstore

        key, store = self._key(name), self._open()
        try:
            result = self._call(lambda: obstore.get(store, key))
        except FileNotFoundError:
            raise missing_error(self.place) from None
        stream = iter(result.stream(min_chunk_size=_READ_BYTES))

        def pieces() -> Iterator[bytes]:
            while (piece := self._call(lambda: next(stream, None))) is not None:
                yield bytes(piece)

        yield pieces()

    def find(self, name: str) -> StoredObject | None:
        import obstore

        key, store = self._key(name), self._open()
        try:
            meta = self._call(lambda: obstore.head(store, key))
        except FileNotFoundError:
            return None
        return StoredObject(name, meta["size"], meta["last_modified"].timestamp())

    def delete(self, name: str) -> None:
        import obstore

        key, store = self._key(name), self._open()
        try:
            self._call(lambda: obstore.delete(store, key))
        except FileNotFoundError:
            return

    def list(self, area: str) -> Iterator[StoredObject]:
        import obstore

        store, prefix = self._open(), f"{self._where.prefix}{area}"
        listed = iter(obstore.list(store, prefix=prefix, chunk_size=1000))
        while (page := self._call(lambda: next(listed, None))) is not None:
            for meta in page:
                name = meta["path"].removeprefix(self._where.prefix)
                if is_object_name(name):
                    yield StoredObject(name, meta["size"], meta["last_modified"].timestamp())

    def discard_unfinished(self, before: float) -> None:
        """Do nothing: the bucket's lifecycle rule removes the parts of unfinished uploads."""

    def _key(self, name: str) -> str:
        if not is_object_name(name):
            raise ValueError(f"not the name of an object: {name[:200]!r}")
        return self._where.prefix + name

    def _open(self) -> "S3Store":
        if self._client is None:
            from obstore.store import S3Store

            limits, where = self._limits, self._where
            # Not every server can delete several objects at once.
            config: S3Config = {"disable_bulk_delete": True}
            if where.endpoint:
                config["endpoint"] = where.endpoint
            if where.region:
                config["region"] = where.region
            self._client = S3Store(
                where.bucket,
                config=config,
                client_options={
                    "allow_http": bool(where.endpoint and where.endpoint.startswith("http://")),
                    "connect_timeout": timedelta(seconds=limits.connect_s),
                    "read_timeout": timedelta(seconds=limits.silence_s),
                    # Uploads and downloads of large files have no short limit.
                    "timeout": timedelta(seconds=_LONGEST_S),
                },
                retry_config={
                    "max_retries": limits.retries,
                    "retry_timeout": timedelta(seconds=limits.total_s),
                    "backoff": {
                        "init_backoff": timedelta(seconds=0.2),
                        "max_backoff": timedelta(seconds=5),
                        "base": 2,
                    },
                },
            )
        return self._client

    def _call(self, request: Callable[[], T]) -> T:
        """Return the result of the request.

        Raises `FileNotFoundError`, and `FileStoreUnavailable` for all other errors: the library's
        messages may contain more than people should read.
        """
        from obstore.exceptions import BaseError

        try:
            return request()
        except FileNotFoundError as exc:
            if _MISSING_BUCKET in str(exc):
                raise self._explained(exc) from None
            raise
        except BaseError as exc:
            raise self._explained(exc) from None

    def _explained(self, error: Exception) -> FileStoreUnavailable:
        """Return an error with the reason of the failure and a hint."""
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        text = str(error)
        status = _STATUS.search(text)
        if _MISSING_BUCKET in text:
            return FileStoreUnavailable(
                catalogue_text("there is no bucket {place}"), hint=_NETWORK, place=self.place
            )
        is_refused = isinstance(error, PermissionDeniedError | UnauthenticatedError)
        if is_refused or (status and status[1] in ("401", "403")) or "credential" in text.lower():
            return FileStoreUnavailable(
                catalogue_text("the access keys were refused by {place}"),
                hint=_KEYS,
                place=self.place,
            )
        reasons = (reason for part, reason in _REASONS.items() if part in text.lower())
        reason = f"HTTP {status[1]}" if status else next(reasons, "the request failed")
        return FileStoreUnavailable(UNREACHABLE, hint=_NETWORK, place=self.place, reason=reason)


class _Source:
    """Iterator over pieces for the library, which would lose the type of an error."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.error: Exception | None = None

    def __iter__(self) -> "_Source":
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._pieces)
        except StopIteration:
            raise
        except Exception as exc:
            self.error = exc
            raise
