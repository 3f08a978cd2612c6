"""Handover of the data from a terminal that owns it to a gateway that starts.

The owner waits until running turns reach their next journaled step, tells its clients that another
process continues, closes, and releases the lock. There are never two owners: the lock decides who
opens the database, and the successor opens nothing before it has the lock.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from gateway.bus.bus import MessageBus
from gateway.control.client import ControlClient
from gateway.core.errors import ConnectionLost, HandedOver
from gateway.core.event_hub import EventHub
from gateway.core.messages import ONCE
from gateway.runtime.lock import AlreadyRunning, acquire
from gateway.runtime.paths import DataDir
from gateway.store.port import Store, Transaction
from gateway.store.repositories.delivery import inbox

log = logging.getLogger(__name__)

# Time for a running step before it is cancelled, as for any stop.
STEP_TIMEOUT_S = 30.0
# Time that a gateway waits for the data: a step, a clean stop, and a reserve for slow machines.
HANDOVER_TIMEOUT_S = 60.0
_POLL_INTERVAL_S = 0.05
_RETRY_INTERVAL_S = 1.0


@frozen
class DataOwnership:
    """Lock of the data.

    `needs_recovery`: the last owner did not stop cleanly. `one_shot_lanes` belong to one-shot runs
    whose processes wait for the new owner.
    """

    needs_recovery: bool
    one_shot_lanes: Sequence[str] = ()


class Handover:
    """Owner's side of the handover: `request` requests it, `run` carries it out."""

    def __init__(self, *, database: Store, bus: MessageBus, events: EventHub) -> None:
        self._database = database
        self._bus = bus
        self._events = events
        self._request_event = asyncio.Event()
        self._successor = ""

    async def request(self, successor: str) -> Sequence[str]:
        """Request the handover; returns the lanes of one-shot runs with unfinished work."""
        if not self._request_event.is_set():
            log.info("%s requests the data", successor)
        self._successor = successor
        self._request_event.set()
        return await self._database.transact(_one_shot_lanes)

    async def run(self) -> None:
        """Wait for a request, then stop at the next step and refer all clients to the successor."""
        await self._request_event.wait()
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S):
                await self._bus.drain()
        except TimeoutError:
            log.warning("a step was interrupted after %.0f s to hand over the data", STEP_TIMEOUT_S)
        await self._events.fail_all(HandedOver(t("{name} takes over", name=self._successor)))


async def take_over(
    stack: ExitStack, home: DataDir, what: str, *, limit_s: float = HANDOVER_TIMEOUT_S
) -> DataOwnership:
    """Own the data until the stack is closed; ask a terminal that owns it to hand it over.

    Raises `AlreadyRunning` when another gateway owns it, or the owner doesn't release it in time.
    """
    attended: dict[str, None] = {}
    refusal: AlreadyRunning | None = None
    asked_at: float | None = None
    try:
        async with asyncio.timeout(limit_s):
            while True:
                try:
                    unclean = stack.enter_context(acquire(home.lock, what))
                    return DataOwnership(unclean, tuple(attended))
                except AlreadyRunning as exc:
                    if refusal is None:
                        log.info("%s: requesting the data", exc)
                    refusal = exc
                if asked_at is None or time.monotonic() - asked_at > _RETRY_INTERVAL_S:
                    asked_at = time.monotonic()
                    attended.update(dict.fromkeys(await _ask(home, what, refusal)))
                await asyncio.sleep(_POLL_INTERVAL_S)
    except TimeoutError:
        assert refusal is not None, "what is not refused is not waited for"
        raise refusal from None


async def _ask(home: DataDir, what: str, refusal: AlreadyRunning) -> Sequence[str]:
    """Ask the current owner. Raises `refusal` if it keeps the data."""
    try:
        client = await ControlClient.connect(home.socket)
        answer = await client.hand_over(what) if client is not None else ()
    except (ConnectionLost, OSError):
        return ()  # the owner is about to exit
    except KoreError as exc:
        log.info("the owner does not hand over the data: %s", exc)
        raise refusal from exc
    if answer is None:
        raise refusal
    return answer


def _one_shot_lanes(tx: Transaction) -> list[str]:
    return [lane for lane in inbox.lanes_at_work(tx) if lane.startswith(ONCE)]
