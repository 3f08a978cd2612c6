"""A database with its owner and workers, each a real store, in one process."""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.types import Effect, Message, ToolCall, ToolResult, user
from gateway.commands import is_command
from gateway.core.messages import InboundMessage, Sender
from gateway.store.port import Row
from gateway.store.postgres.connection import connect
from gateway.store.postgres.engine import PostgresOptions, PostgresStore
from gateway.store.postgres.transaction import PostgresTransaction
from gateway.store.postgres.worker_store import PostgresWorkerStore
from gateway.store.repositories import active_channels
from gateway.store.repositories.execution import claims
from gateway.store.repositories.execution.claims import ClaimScope, TurnClaim
from tests import postgres_server

# No lease expires during a test: tests declare workers dead explicitly.
LEASE_S = 3_600.0
EFFECTS: dict[str, Effect] = {"look": "read", "write": "idempotent", "do": "unsafe"}


def compose(messages: Sequence[InboundMessage], mode: str | None) -> Message:
    return user(" + ".join(f"{message.event_id}={message.content}" for message in messages))


def message(chat: str, number: int) -> InboundMessage:
    return InboundMessage(
        *("chat", "bot", chat, Sender("7")),
        content=f"text {number}",
        received_at=float(number),
        event_id=f"{chat}:{number}",
        message_id=str(number),
    )


@dataclass
class HeldTurn:
    """A turn claimed by a worker; `calls` have no result yet."""

    claim: TurnClaim
    calls: list[ToolCall] = field(default_factory=list)
    started: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)

    @property
    def planned(self) -> list[ToolCall]:
        return [call for call in self.calls if call.id not in self.started]

    @property
    def under_way(self) -> list[ToolCall]:
        return [call for call in self.calls if call.id in self.started]


class ClaimScene:
    """Scene that is open until `close`; `rows` reads committed rows without blocking others."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._folder = tempfile.TemporaryDirectory()
        self.address = postgres_server.create_database()
        self._reader = connect(self.address)
        self._reader.execute("SET default_transaction_isolation = 'read committed'")
        self.owner = self._runner.run(self._open())
        self.do(self.owner, active_channels.limit, active_channels.ALL)

    def close(self) -> None:
        self.end(self.owner)
        self._reader.close()
        self._runner.close()
        self._folder.cleanup()

    def do(self, store: PostgresStore, work: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Run a transaction in one of the processes."""
        return self._runner.run(store.transact(work, *args, **more))

    def join(self) -> PostgresWorkerStore:
        async def join() -> PostgresWorkerStore:
            options = PostgresOptions(connections=1, lease_s=LEASE_S)
            folder = Path(self._folder.name)
            return PostgresWorkerStore.join(
                self.address, folder, write_copy=_write_copy, options=options
            )

        return self._runner.run(join())

    def end(self, store: PostgresStore) -> None:
        """Close the connections of a store without notice to others."""
        self._runner.run(store.close())

    def claim(self, worker: PostgresWorkerStore, lane: str, now: float) -> Any:
        scope = ClaimScope(worker.worker)
        return self.do(worker, claims.claim, lane, now, is_command, compose, scope)

    @property
    def reader(self) -> PostgresTransaction:
        return PostgresTransaction(self._reader)

    def rows(self, sql: str, *values: object) -> list[Row]:
        return self.reader.all(sql, values)

    def content(self) -> Row:
        """Return a digest of all tables that make up turns."""
        tables = ("turn", "step", "message", "inbox", "outbox", "session", "approval")
        digests = [
            f"(SELECT md5(string_agg(row::text, '' ORDER BY row::text)) FROM {table} AS row)"
            for table in tables
        ]
        # Live workers by id only, without the state that they report.
        counting = "(SELECT string_agg(id::text, ' ' ORDER BY id) FROM worker WHERE is_ended = 0)"
        (row,) = self.rows(f"SELECT {', '.join([*digests, counting])}")
        return row

    async def _open(self) -> PostgresStore:
        options = PostgresOptions(connections=1, lease_s=LEASE_S, has_workers=True)
        return PostgresStore.open(
            self.address, Path(self._folder.name), write_copy=_write_copy, options=options
        )


def new_connection(scene: ClaimScene) -> Any:
    return closing(connect(scene.address))


def _write_copy(tx: object, path: Path) -> None:
    raise AssertionError("nobody copies it")
