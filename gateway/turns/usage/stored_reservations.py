"""Reservations of several processes in their shared database."""

import logging
from collections.abc import Sequence

from agent.usage import Charge
from gateway.store.errors import StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories import usage
from gateway.store.repositories.usage import Payer
from gateway.turns.usage.limits import UsageLimit
from gateway.turns.usage.reservations import ExceededLimit, exceeded_limit

log = logging.getLogger(__name__)


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
        if exceeded is None and estimate.nano:
            usage.put_reservation(tx, payer, estimate.nano)
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
