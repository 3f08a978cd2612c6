"""Reservations of running model calls, so that parallel calls together respect each limit.

They are in memory, or in the database if several processes share it.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from agent.providers.usage import Charge
from agent.records import frozen
from gateway.store.errors import StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories import usage
from gateway.store.repositories.usage import Payer, Reservation, Totals
from gateway.turns.usage.limits import UsageLimit

log = logging.getLogger(__name__)


@frozen
class ExceededLimit:
    """Limit that forbids a call, and its usage in the limit's unit."""

    cap: UsageLimit
    used: int


class Reservations(Protocol):
    """Reservations of the minimum cost of each call, from its start until it is charged."""

    async def reserve(
        self, payer: Payer, caps: Sequence[UsageLimit], since: float | None, estimate: Charge
    ) -> ExceededLimit | None:
        """Reserve the cost of `estimate`, or return the first limit that forbids it.

        In both cases, the turn's earlier reservation ends. `since` is the beginning of the day.
        """
        ...

    def settle(self, tx: Transaction, payer: Payer) -> None:
        """End the reservation of a call that this transaction charges."""
        ...

    async def release(self, turn: int) -> None:
        """End the reservation of the turn `Payer.by`, which makes no more calls."""
        ...


class MemoryReservations:
    """Implements `Reservations` for a single process that makes all calls."""

    def __init__(self, database: Store) -> None:
        self._database = database
        self._by_turn: dict[int, Reservation] = {}
        self._settled = 0

    async def reserve(
        self, payer: Payer, caps: Sequence[UsageLimit], since: float | None, estimate: Charge
    ) -> ExceededLimit | None:
        while True:
            settled = self._settled
            totals = await self._database.transact(usage.totals, payer, since)
            # Otherwise a call that was charged meanwhile would count neither as a reservation nor
            # in these totals.
            if settled == self._settled:
                break
        # No other coroutine runs between this line and the reservation.
        self._by_turn.pop(payer.by, None)
        exceeded = exceeded_limit(caps, totals, self._by_turn.values(), estimate)
        if exceeded is None:
            self._by_turn[payer.by] = Reservation.of(payer, estimate.cost_nusd or 0)
        return exceeded

    def settle(self, tx: Transaction, payer: Payer) -> None:
        def forget() -> None:
            self._by_turn.pop(payer.by, None)
            self._settled += 1

        tx.after_commit(forget)

    async def release(self, turn: int) -> None:
        self._by_turn.pop(turn, None)


def exceeded_limit(
    caps: Iterable[UsageLimit],
    totals: Totals,
    reservations: Iterable[Reservation],
    estimate: Charge,
) -> ExceededLimit | None:
    """Return the first limit that forbids a call of at least `estimate`.

    The reservations of other calls count as used.
    """
    others = tuple(reservations)
    for cap in caps:
        used = cap.used_amount(totals)
        if cap.is_money:
            used += sum(
                reservation.cost_nusd for reservation in others if _counts_for(reservation, cap)
            )
        if cap.forbids(used, estimate):
            return ExceededLimit(cap, used)
    return None


def _counts_for(reservation: Reservation, cap: UsageLimit) -> bool:
    whose = str(reservation.turn), reservation.session, reservation.chat
    return not cap.scope or cap.scope in whose


class StoredReservations:
    """Implements `Reservations`: one transaction checks and reserves.

    All rows count. The rows of a killed process are deleted during its recovery by
    `usage.forget_reservations`.
    """

    def __init__(self, database: Store) -> None:
        self._database = database
        # Turns of this process with a row, so that most calls need no statement to end a
        # reservation.
        self._open: set[int] = set()

    async def reserve(
        self, payer: Payer, caps: Sequence[UsageLimit], since: float | None, estimate: Charge
    ) -> ExceededLimit | None:
        return await self._database.transact(self._reserve, payer, caps, since, estimate)

    def _reserve(
        self,
        tx: Transaction,
        payer: Payer,
        caps: Sequence[UsageLimit],
        since: float | None,
        estimate: Charge,
    ) -> ExceededLimit | None:
        totals = usage.totals(tx, payer, since)
        if not any(cap.is_money for cap in caps):
            return exceeded_limit(caps, totals, (), estimate)
        others = usage.reservations(tx, payer.by)
        exceeded = exceeded_limit(caps, totals, others, estimate)
        if exceeded is None and estimate.cost_nusd:
            usage.put_reservation(tx, payer, estimate.cost_nusd)
            tx.after_commit(lambda: self._open.add(payer.by))
        else:
            self._end(tx, payer.by)
        return exceeded

    def settle(self, tx: Transaction, payer: Payer) -> None:
        if payer.by in self._open:
            self._end(tx, payer.by)

    async def release(self, turn: int) -> None:
        if turn not in self._open:
            return
        try:
            await self._database.transact(self._end, turn)
        except StoreError as exc:
            # The process is ending or was replaced; the recovery of its turns deletes the row.
            log.debug("a reservation of turn %d stays for now: %s", turn, exc)

    def _end(self, tx: Transaction, turn: int) -> None:
        usage.end_reservation(tx, turn)
        tx.after_commit(lambda: self._open.discard(turn))
