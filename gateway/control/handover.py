"""Handing the data over: a gateway that starts asks the terminal that owns it to let go.

The owner lets what runs go on to its next journaled step, tells everybody who watches that another
process goes on, closes, and releases the lock. There is never a moment with two owners: the lock
alone decides who opens the database, and the asker opens nothing before it has it.
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

# How long a step that runs may go on before it is cut off, as at any stop.
STEP_S = 30.0
# How long a gateway waits for the data: a step, a clean stop, and room for a slow machine.
LIMIT_S = 60.0
_LOOK_S = 0.05
_ASK_AGAIN_S = 1.0


@frozen
class DataOwnership:
    """The lock of the data. `needs_recovery`: the last owner left in the middle. `one_shot_lanes`
    belong to one-shot runs whose processes wait for the new owner."""

    needs_recovery: bool
    one_shot_lanes: Sequence[str] = ()


class Handover:
    """The side that lets go: `request` it, and `run` does it."""

    def __init__(self, *, database: Store, bus: MessageBus, events: EventHub) -> None:
        self._database = database
        self._bus = bus
        self._events = events
        self._request_event = asyncio.Event()
        self._successor = ""

    async def request(self, successor: str) -> Sequence[str]:
        """Begin, or go on; returns the lanes of one-shot runs that have work open."""
        if not self._request_event.is_set():
            log.info("%s asks for the data", successor)
        self._successor = successor
        self._request_event.set()
        return await self._database.transact(_one_shot_lanes)

    async def run(self) -> None:
        """Wait for a request; then rest at the next step and send everybody to the successor."""
        await self._request_event.wait()
        try:
            async with asyncio.timeout(STEP_S):
                await self._bus.drain()
        except TimeoutError:
            log.warning("a step was interrupted after %.0f s to hand over the data", STEP_S)
        await self._events.fail_all(HandedOver(t("{name} takes over", name=self._successor)))


async def take_over(
    stack: ExitStack, home: DataDir, what: str, *, limit_s: float = LIMIT_S
) -> DataOwnership:
    """Own the data until the stack is closed, asking for it where a terminal owns it.

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
                        log.info("%s: asking for the data", exc)
                    refusal = exc
                if asked_at is None or time.monotonic() - asked_at > _ASK_AGAIN_S:
                    asked_at = time.monotonic()
                    attended.update(dict.fromkeys(await _ask(home, what, refusal)))
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        assert refusal is not None, "what is not refused is not waited for"
        raise refusal from None


async def _ask(home: DataDir, what: str, refusal: AlreadyRunning) -> Sequence[str]:
    """Ask the current owner. Raises `refusal` when it keeps the data."""
    try:
        client = await ControlClient.connect(home.socket)
        answer = await client.hand_over(what) if client is not None else ()
    except (ConnectionLost, OSError):
        return ()  # it is just going
    except KoreError as exc:
        log.info("the owner does not hand over: %s", exc)
        raise refusal from exc
    if answer is None:
        raise refusal
    return answer


def _one_shot_lanes(tx: Transaction) -> list[str]:
    return [lane for lane in inbox.lanes_at_work(tx) if lane.startswith(ONCE)]
