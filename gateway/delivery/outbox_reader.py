"""The outbox as `delivery` works it off: patient with a full disk, not with what never mends."""

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

_PAUSE_S = 5.0
# A refusal that no free space and no other program's leaving will end is not waited for longer.
TRIES = 12


class OutboxReader:
    """`clock` tells Unix time in seconds, `wait` is how it rests until the next try."""

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
        """The work's result, however long the disk is full or the file locked.

        What has happened to a message must not be forgotten: it would be sent again, unmarked.
        Raises `StoreError` for what stays refused.
        """
        tries = 0
        while True:
            try:
                return await self._database.transact(work, *args, **kwargs)
            except StoreError as exc:
                tries += not isinstance(exc, StoreBusy)
                if isinstance(exc, StoreCorrupt) or tries >= TRIES:
                    raise
                log.error("sending is delayed: %s", exc)
                await self._wait(asyncio.Event(), _PAUSE_S)

    async def next_part(self, lane: str) -> PendingPart | float | None:
        """The head of a route (`outbox.head`). What cannot be read is buried: it would keep all
        that stands behind it from ever being sent. Raises `StoreError`."""
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
        """The part has arrived; returns the route's next head and, when it `answers` something
        that bears a reaction, the messages there that are still to be answered.

        Raises `StoreError`."""
        try:
            return await self.run_with_retries(
                self._record_sent, part.seq, provider_message_id, lane, answers
            )
        except StoreCorrupt:
            raise
        except StoreError:
            # That the next one cannot be read must not undo that this one has arrived.
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
