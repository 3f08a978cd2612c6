"""Mapping of PostgreSQL's errors to the store's errors."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg

from gateway.store.errors import StoreBusy, StoreCorrupt, StoreError, catalogue_text
from gateway.store.port import Row

# Classes of its codes: https://www.postgresql.org/docs/15/errcodes-appendix.html
_NO_ROOM = ("53100",)
_RETRYABLE = ("53", "54", "55", "57")
_SHUT_DOWN = ("57P01", "57P02", "57P03")
_BROKEN = ("XX001", "XX002")
# A concurrent transaction committed first, so this one may run again. If two transactions insert a
# key at once, one fails as a duplicate, although both would succeed in sequence.
RERUN = ("40001", "40P01", "23505")
_TRIES, _PAUSE_S = 50, 0.1
T = TypeVar("T")


def code_of(error: psycopg.Error) -> str:
    """Return the five-character code, or '' for an error of the library itself."""
    return error.sqlstate or ""


def is_lost(error: psycopg.Error, connection: psycopg.Connection) -> bool:
    """Return whether the server is gone, so that the statement is not at fault."""
    code = code_of(error)
    return connection.broken or connection.closed or code[:2] == "08" or code in _SHUT_DOWN


def run_alone(connection: "psycopg.Connection[Row]", work: Callable[[], T]) -> T:
    """Run a transaction at startup, before the engine runs; retry after a conflict."""
    for attempt in range(_TRIES):
        try:
            with connection.transaction():
                return work()
        except psycopg.Error as exc:
            if code_of(exc) not in RERUN or attempt == _TRIES - 1:
                raise
        time.sleep(random.uniform(0, _PAUSE_S))  # noqa: S311 - jitter
    raise AssertionError("the last try returns or raises")


def mapped(error: psycopg.Error) -> StoreError:
    """Return the store's error for a PostgreSQL error."""
    code, text = code_of(error), str(error).partition("\n")[0]
    if code in _NO_ROOM:
        return StoreBusy(
            "the disk is full: nothing more can be stored", hint="Free some disk space."
        )
    if code in _BROKEN:
        return StoreCorrupt(None, text)
    kind = StoreBusy if code[:2] in _RETRYABLE or code in RERUN else StoreError
    return kind(catalogue_text("the database returned an error: {reason}"), reason=text)
