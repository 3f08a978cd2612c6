"""Store access from a second process: each transaction opens its own connection."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg

from gateway.core.tasks import run_to_completion
from gateway.store.port import Row, Transaction
from gateway.store.postgres.connection import connect
from gateway.store.postgres.errors import RERUN, code_of
from gateway.store.postgres.transaction import PostgresTransaction

P = ParamSpec("P")
T = TypeVar("T")


class ConnectionStore:
    """Subset of `gateway.store.port.Store` that only changes and reads rows."""

    # No files are stored next to the database.
    folder = Path()

    def __init__(self, address: str, connections: int = 4) -> None:
        self._address = address
        self._threads = ThreadPoolExecutor(connections)
        self._own = threading.local()
        self._connections: list[psycopg.Connection[Row]] = []

    async def transact(
        self,
        work: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        speak = copy_context().run
        job = asyncio.get_running_loop().run_in_executor(
            self._threads, self._run, lambda tx: speak(work, tx, *args, **kwargs)
        )
        result, actions = await run_to_completion(job)
        for action in actions:
            action()
        return result

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()

    def _run(self, work: Callable[[Transaction], Any]) -> tuple[Any, Sequence[Callable[[], None]]]:
        connection: psycopg.Connection[Row] | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = connect(self._address)
            self._connections.append(connection)
        while True:
            tx = PostgresTransaction(connection)
            try:
                with connection.transaction():
                    result = work(tx)
            except psycopg.Error as exc:
                if code_of(exc) not in RERUN:
                    raise
            else:
                return result, tx.actions
