"""State of one chat's queue on the bus while it has work."""

import asyncio
import logging

from agent.events import Notice
from agent.i18n import t
from agent.turn.journal import CancelToken
from gateway.core.event_hub import EventHub
from gateway.store.errors import StoreBusy, StoreCorrupt
from gateway.store.repositories.execution.claims import CommandClaim, TurnClaim

log = logging.getLogger(__name__)


class Lane:
    """Queue of one chat: waiting messages are on disk, running work is here.

    `claim` is being handled; `failed_claim` was ended by a bug and is not reported yet. A lane with
    `is_bypass` runs commands that bypass the queue. `waits_for_store`: the disk is full or busy,
    and viewers were notified.
    """

    def __init__(self, name: str, *, is_bypass: bool = False) -> None:
        self.name = name
        self.is_bypass = is_bypass
        self.wake = asyncio.Event()
        self.stop: CancelToken | None = None
        self.waits_for_store = False
        self.claim: TurnClaim | CommandClaim | None = None
        self.failed_claim: TurnClaim | CommandClaim | None = None

    def report_store_wait(self, why: StoreBusy, events: EventHub) -> None:
        """Report that the lane waits for the disk; once, because it retries every few seconds."""
        if not self.waits_for_store:
            log.error("lane %s waits: %s", self.name, why)
            text = t(
                "⏳ The database cannot be written right now. This continues as soon as it can."
            )
            events.publish(self.name, Notice("warning", text))
        self.waits_for_store = True

    def report_damage(self, why: StoreCorrupt, events: EventHub) -> None:
        """Suspend the lane: a damaged file can neither answer anyone nor store anything."""
        log.error("lane %s rests: %s", self.name, why)
        events.fail(self.name, why)
