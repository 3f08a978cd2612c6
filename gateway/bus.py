"""The message bus: takes messages in durably, and gives each lane a task that works them off."""

import asyncio
import logging
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from sqlite3 import Connection

from agent.progress import Stop
from gateway.access import Access
from gateway.channels.base import Batch
from gateway.commands import command_of, is_command
from gateway.commands.replies import Commands
from gateway.compose import compose
from gateway.delivery import Delivery
from gateway.journal import Suspended
from gateway.messages import InboundMessage
from gateway.store import inbox, turns
from gateway.store.database import Database, StoreError
from gateway.store.inbox import Arrival, Busy, Claim, CommandClaim, Entry
from gateway.store.outbox import Letter
from gateway.turn import Turns

log = logging.getLogger(__name__)

# So many messages may wait over all lanes before polling stops; the platform keeps the rest.
WAITING_LIMIT = 5_000
# Below this, nothing is taken in: what is confirmed must be stored.
FREE_FLOOR_BYTES = 50 * 2**20
# Turns that run at the same time, over all lanes.
CONCURRENT_TURNS = 128
_PAUSE_S = 2.0
_DENIED = "not on the allow-list"
_STOP = "stop"


class Lane:
    """One chat's queue: what waits in it is on disk, here is only its running turn."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wake = asyncio.Event()
        self.stop: Stop | None = None


class MessageBus:
    """`accept` what came in; `run` works it off, each lane in order, many lanes at once."""

    def __init__(
        self,
        database: Database,
        access: Access,
        commands: Commands,
        turns: Turns,
        delivery: Delivery,
    ) -> None:
        self._database = database
        self._access = access
        self._commands = commands
        self._turns = turns
        self._delivery = delivery
        self._lanes: dict[str, Lane] = {}
        self._waits_for: dict[str, set[str]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._slots = asyncio.Semaphore(CONCURRENT_TURNS)
        self._idle = asyncio.Event()
        self._idle.set()
        self.accepted = 0
        self.handled = 0

    async def accept(self, channel: str, account: str, batch: Batch) -> None:
        """Store a poll's messages and its cursor in one transaction, then wake their lanes.

        Waits while too many messages wait or the disk is nearly full: as long as this has not
        returned, the channel confirms nothing. Raises `StoreError`; then nothing is stored.
        """
        await self._room()
        entries = [self._entry(message) for message in batch.messages]
        arrival = Arrival(channel, account, time.time(), batch.next_offset)
        stored = await self._database.run(_store, arrival, entries, batch.dead)
        self.accepted += len(entries)
        for entry in entries:
            if entry.dead_reason == _DENIED:
                _tell_how_to_allow(entry.message)
            elif entry.dead_reason == _STOP:
                await self._stop(entry.message, entry.message.event_id in stored.stopped)
        for lane in stored.lanes:
            self.wake(lane)

    async def submit(self, message: InboundMessage) -> None:
        """One message from a source without a cursor; returns once it is on disk."""
        await self.accept(message.channel, message.account, Batch([message]))

    def wake(self, name: str) -> None:
        """There is something to do on this lane."""
        if self._group is None:
            return  # `run` begins with every lane that has work.
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name)
            self._idle.clear()
            self._group.create_task(self._work(lane), name=f"lane {name}")
        lane.wake.set()

    async def run(self) -> None:
        """Work until cancelled; starts with what an earlier process left."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for lane in await self._database.run(inbox.lanes_with_work):
                self.wake(lane)
            await asyncio.Event().wait()

    async def stop(self, lane: str) -> bool:
        """Stop the lane's running turn; False when none runs."""
        found = self._lanes.get(lane)
        if found is None or found.stop is None:
            return False
        await self._database.run(inbox.request_stop, lane, "")
        found.stop.request()
        return True

    async def drain(self) -> None:
        """No new turns; returns when those that run have ended or rest at a journaled step."""
        self._turns.draining = True
        await self._idle.wait()

    @property
    def lanes(self) -> int:
        """How many lanes have something to do."""
        return len(self._lanes)

    def _entry(self, message: InboundMessage) -> Entry:
        if not self._access.is_allowed(message):
            return Entry(message, _DENIED)
        return Entry(message, _STOP if command_of(message) == "stop" else None)

    async def _stop(self, message: InboundMessage, something: bool) -> None:
        lane = self._lanes.get(message.session_key)
        if lane is not None and lane.stop is not None:
            lane.stop.request()
            return
        text = "⏹ Stopped." if something else "Nothing is running."
        parts = self._delivery.render(message.route, text)
        letter = Letter(f"stop:{message.event_id}", message.route, parts, event_id=message.event_id)
        await self._delivery.post(letter)

    async def _room(self) -> None:
        while True:
            waiting = await self._database.run(inbox.waiting_count)
            free_bytes = shutil.disk_usage(self._database.folder).free
            if waiting < WAITING_LIMIT and free_bytes >= FREE_FLOOR_BYTES:
                return
            log.error(
                "taking in nothing: %d messages wait, %d MB of disk are free",
                waiting,
                free_bytes // 2**20,
            )
            await asyncio.sleep(_PAUSE_S)

    async def _work(self, lane: Lane) -> None:
        """Claim and handle until nothing is left."""
        try:
            while True:
                lane.wake.clear()
                try:
                    found = await self._step(lane)
                except StoreError as exc:
                    log.error("lane %s waits: %s", lane.name, exc)
                    await asyncio.sleep(_PAUSE_S)
                    continue
                if not found and not lane.wake.is_set():
                    return
        except Suspended:
            return
        finally:
            del self._lanes[lane.name]
            if not self._lanes:
                self._idle.set()

    async def _step(self, lane: Lane) -> bool:
        """Handle what is next on the lane; False when there is nothing."""
        if self._turns.draining:
            raise Suspended
        claim = await self._database.run(inbox.claim, lane.name, time.time(), is_command, compose)
        match claim:
            case Claim():
                async with self._slots:
                    await self._run_turn(lane, claim)
            case CommandClaim():
                await self._database.run(self._carry_out, claim)
                self._delivery.wake(lane.name)
            case Busy(other):
                self._waits_for.setdefault(other, set()).add(lane.name)
                # The other turn may have ended just before this was noted.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PAUSE_S):
                        await lane.wake.wait()
            case None:
                return False
        self.handled += 1
        return True

    async def _run_turn(self, lane: Lane, claim: Claim) -> None:
        lane.stop = Stop()
        try:
            if claim.exhausted:
                replay = f"It is kept: `kore replay {claim.seq}` tries again."
                await self._turns.give_up(
                    claim, f"⚠️ I gave up on this message after several broken attempts. {replay}"
                )
            else:
                await self._turns.run(claim, lane.stop)
        except (Suspended, StoreError):
            self._turns.histories.forget(claim.session)
            raise
        except Exception:
            # A bug must cost one answer, not the chat, and never be silent.
            log.exception("turn %d of %s failed", claim.turn, lane.name)
            await self._turns.give_up(
                claim, f"⚠️ Something in me broke while I worked on this (message {claim.seq})."
            )
        finally:
            lane.stop = None
            for other in self._waits_for.pop(lane.name, ()):
                self.wake(other)

    def _carry_out(self, connection: Connection, claim: CommandClaim) -> None:
        now = time.time()
        text = self._commands.carry_out(connection, claim, now)
        message = claim.message
        letter = Letter(
            delivery_id=f"c{claim.seq}",
            route=message.route,
            parts=self._delivery.render(message.route, text),
            event_id=message.event_id,
        )
        turns.finish_command(connection, claim.seq, [letter], now)


@dataclass(frozen=True, slots=True)
class _Stored:
    lanes: set[str]
    stopped: set[str]


def _store(
    connection: Connection,
    arrival: Arrival,
    entries: Sequence[Entry],
    dead: Sequence[tuple[str, str]],
) -> _Stored:
    """A poll in one transaction. A stop is stored with it, so that no crash forgets it."""
    new = inbox.accept(connection, arrival, entries, dead)
    stopped = {
        entry.message.event_id
        for entry in entries
        if entry.dead_reason == _STOP
        and inbox.request_stop(connection, entry.message.session_key, entry.message.event_id)
    }
    return _Stored(new, stopped)


def _tell_how_to_allow(message: InboundMessage) -> None:
    log.warning(
        "%s: %s is not on the allow-list; to let them in, add %s to %s.allow_from",
        message.channel,
        message.sender.id,
        message.sender.id,
        message.channel,
    )
