"""Access to the outbox for the sender, with retries for a full disk or a locked file."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from gateway.store.errors import StoreBusy, StoreCorrupt, StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories.delivery import inbox, outbox
from gateway.store.repositories.delivery.outbox import PendingPart

P = ParamSpec("P")
T = TypeVar("T")
Wait = Callable[[asyncio.Event, float], Awaitable[None]]

log = logging.getLogger(__name__)

_RETRY_INTERVAL_S = 5.0
# Limit for errors other than a full disk or a locked file.
MAX_TRIES = 12


class OutboxReader:
    """Reader of the outbox that retries failed transactions.

    `clock` returns Unix time in seconds; `wait` pauses until the next attempt.
    """

    def __init__(self, database: Store, clock: Callable[[], float], wait: Wait) -> None:
        self._database = database
        self._clock = clock
        self._wait = wait

    async def run_with_retries(
        self,
        work: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of the work, retrying while the disk is full or the file locked.

        The state of a message must not be lost: it would be sent again, unmarked. Raises
        `StoreError` for permanent failures.
        """
        tries = 0
        while True:
            try:
                return await self._database.transact(work, *args, **kwargs)
            except StoreError as exc:
                tries += not isinstance(exc, StoreBusy)
                if isinstance(exc, StoreCorrupt) or tries >= MAX_TRIES:
                    raise
                log.error("sending is delayed: %s", exc)
                await self._wait(asyncio.Event(), _RETRY_INTERVAL_S)

    async def next_part(self, lane: str) -> PendingPart | float | None:
        """Return the head of a route (`outbox.head`).

        An unreadable message is given up, because it would block all messages after it. Raises
        `StoreError`.
        """
        while True:
            try:
                return await self.run_with_retries(self._head, lane)
            except StoreCorrupt:
                raise
            except StoreError as exc:
                if not await self.run_with_retries(outbox.give_up_unreadable, lane, str(exc)):
                    raise
                log.error("dropped a message to %s that cannot be read: %s", lane, exc)

    async def record_sent(
        self, part: PendingPart, provider_message_id: str, lane: str, *, answers: bool
    ) -> tuple[PendingPart | float | None, frozenset[str]]:
        """Record that the part has arrived.

        Returns the route's next head and, if the part `answers` something with a reaction, the
        messages there that are still unanswered. Raises `StoreError`.
        """
        try:
            return await self.run_with_retries(
                self._record_sent, part.seq, provider_message_id, lane, answers
            )
        except StoreCorrupt:
            raise
        except StoreError:
            # Record the delivery even if the next part cannot be read.
            await self.run_with_retries(outbox.set_sent, part.seq, provider_message_id)
            following = await self.next_part(lane)
            left = await self.run_with_retries(inbox.unfinished, lane) if answers else frozenset()
            return following, left

    def _record_sent(
        self, tx: Transaction, seq: int, provider_message_id: str, lane: str, answers: bool
    ) -> tuple[PendingPart | float | None, frozenset[str]]:
        following = outbox.sent(tx, seq, provider_message_id, lane, self._clock())
        return following, inbox.unfinished(tx, lane) if answers else frozenset()

    def _head(self, tx: Transaction, lane: str) -> PendingPart | float | None:
        return outbox.head(tx, lane, self._clock())
