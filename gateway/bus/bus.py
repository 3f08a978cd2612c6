"""The message bus: takes messages in durably, and gives each lane a task that works them off."""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from agent.i18n import set_locale, t
from agent.turn.journal import CancelToken
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.bus.ingest import Ingestor
from gateway.bus.interrupts import StopResult, stop_lane
from gateway.bus.lane import Lane
from gateway.core.channel_events import Batch
from gateway.core.errors import AwaitingAnswer, TurnSuspended
from gateway.core.link_defusing import quiet
from gateway.core.messages import Button, InboundMessage
from gateway.core.records import TypedCommand
from gateway.store.errors import StoreBusy, StoreCorrupt, StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories import claims, inbox, sessions, turns
from gateway.store.repositories.claims import CommandClaim, SessionBusy, TurnClaim
from gateway.store.repositories.outbox import OutgoingReply
from gateway.turns.runner import TurnRunner

log = logging.getLogger(__name__)

# Turns that run at the same time, over all lanes.
CONCURRENT_TURNS = 128
_PAUSE_S = 2.0


class Commands(Protocol):
    """Chat commands: `gateway.commands.dispatcher.CommandDispatcher`."""

    def read(self, message: InboundMessage) -> TypedCommand | None: ...
    def takes_time(self, claim: CommandClaim) -> bool: ...
    def carry_out(self, tx: Transaction, claim: CommandClaim, now: float) -> str: ...
    def buttons(self, tx: Transaction, claim: CommandClaim, now: float) -> tuple[Button, ...]: ...
    async def work(self, claim: CommandClaim, now: float) -> str: ...


class MessageBus:
    """`accept` what came in; `run` works it off, each lane in order, many lanes at once."""

    def __init__(
        self,
        database: Store,
        intake: Ingestor,
        commands: Commands,
        turns: TurnRunner,
        approvals: ApprovalCoordinator,
        *,
        concurrent_turns: int = CONCURRENT_TURNS,
    ) -> None:
        self._database = database
        self._ingestor = intake
        self.pairing = intake.pairing
        self.audit_relay = intake.audit_relay
        self._commands = commands
        self._turns = turns
        self._approvals = approvals
        self._delivery = approvals.delivery
        self._lanes: dict[tuple[str, bool], Lane] = {}
        self._waits_for: dict[str, set[str]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._slots = asyncio.Semaphore(concurrent_turns)
        self._idle = asyncio.Event()
        self._idle.set()
        self.accepted = 0
        self.handled = 0

    async def accept(self, channel: str, account: str, batch: Batch) -> None:
        """Store a poll's messages and its cursor in one transaction, then wake their lanes.

        Waits while too many messages wait or the disk is nearly full: as long as this has not
        returned, the channel confirms nothing. Raises `StoreError`; then nothing is stored.
        """
        taken = await self._ingestor.take(channel, account, batch)
        if taken.pressed or taken.settled:
            await self.audit_relay.flush()
        self.accepted += len(batch.messages)
        for lane in taken.lanes:
            self.wake(lane)
        for lane in taken.aside:
            self.wake(lane, aside=True)
        for lane in taken.told:
            self._delivery.wake(lane)
        self._approvals.publish_closed(taken.settled)
        for pressed in taken.pressed:
            if self._group is not None:
                self._group.create_task(self._approvals.acknowledge(pressed), name="a press")
        for lane in taken.stopped:
            self._request_stop(lane)
        for message in taken.fresh:
            if self._group is not None and (at := self._delivery.reacts(message.route)):
                seen = at.seen(message.route, message.message_id)
                self._group.create_task(seen, name="a reaction")

    async def submit(self, message: InboundMessage) -> None:
        """One message from a source without a cursor; returns once it is on disk. Raises
        `KoreError` when there is no room for it."""
        await self.accept(message.channel, message.account, Batch([message], waits=False))

    def wake(self, name: str, *, aside: bool = False) -> None:
        """There is something to do on this lane, or past its queue."""
        if self._group is None:
            return  # `run` begins with every lane that has work.
        lane = self._lanes.get((name, aside))
        if lane is None:
            lane = self._lanes[name, aside] = Lane(name, aside=aside)
            self._idle.clear()
            self._group.create_task(self._work(lane), name=f"lane {name}")
        lane.wake.set()

    async def run(self) -> None:
        """Work until cancelled; starts with what an earlier process left."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._turns.subagents.wake = self.wake
            try:
                self._turns.isolation.begin(await self._suspects())
                for lane in await self._database.transact(inbox.lanes_with_work):
                    self.wake(lane)
                    self.wake(lane, aside=True)
                await self._approvals.run(self.wake)
            finally:
                self._group = None

    async def stop(self, lane: str) -> bool:
        """Stop the lane's running turn; False when none runs."""
        halted = await self._database.transact(self._store_stop, lane)
        if halted.settled:
            await self.audit_relay.flush()
        self._approvals.publish_closed(halted.settled)
        for stopped in halted.lanes:
            self._request_stop(stopped)
        for woken in halted.woken:
            self.wake(woken)
        return halted.stopping is not None

    async def drain(self) -> None:
        """No new turns; returns when those that run have ended or rest at a journaled step."""
        self._turns.draining = True
        self._turns.isolation.end()
        await self._idle.wait()

    @property
    def obstacle(self) -> str | None:
        """Why nothing is taken in now; None when all is well."""
        return self._ingestor.obstacle

    @property
    def lanes(self) -> int:
        """How many lanes have something to do."""
        return len(self._lanes)

    async def _suspects(self) -> list[str]:
        lanes = await self._database.transact(claims.suspect_lanes)
        if lanes:
            log.warning(
                "%d turns were cut off again and again: they go on one at a time first", len(lanes)
            )
        return lanes

    def _store_stop(self, tx: Transaction, lane: str) -> StopResult:
        return stop_lane(tx, self._approvals.service, lane, "", time.time())

    def _request_stop(self, name: str) -> None:
        """The journal knows it; the turn that runs hears of it now."""
        if (lane := self._lanes.get((name, False))) is not None and lane.stop is not None:
            lane.stop.request()

    async def _work(self, lane: Lane) -> None:
        """Claim and handle until nothing is left."""
        try:
            while await self._process_next(lane):
                pass
        finally:
            del self._lanes[lane.name, lane.aside]
            if not self._lanes:
                self._idle.set()

    async def _process_next(self, lane: Lane) -> bool:
        """Do what is next on the lane; False when it has nothing to do or has to rest."""
        broken, lane.broken = lane.broken, None
        try:
            if broken is None:
                lane.wake.clear()
                return await self._claim_and_handle(lane) or lane.wake.is_set()
            await self._fail_claim(broken)
            return True
        except TurnSuspended:
            return False
        except AwaitingAnswer:
            # A person may have answered before the turn came to rest.
            return lane.wake.is_set()
        except StoreBusy as exc:
            lane.report_store_wait(exc, self._turns.events)
            lane.broken = broken
            await asyncio.sleep(_PAUSE_S)
            return True
        except StoreCorrupt as exc:
            lane.report_damage(exc, self._turns.events)
            return False
        except Exception:
            # A bug, also one that the database refuses, costs one answer, not the chat, and is not
            # silent. When nobody can be told, or even that breaks, the lane rests until woken.
            log.exception("lane %s broke", lane.name)
            lane.broken = lane.claim if broken is None else None
            return lane.broken is not None
        finally:
            lane.stop = None
            if not lane.aside:
                self._turns.isolation.leave(lane.name)
            for other in () if lane.aside else self._waits_for.pop(lane.name, ()):
                self.wake(other)

    async def _claim_and_handle(self, lane: Lane) -> bool:
        """Handle what is next on the lane; False when there is nothing."""
        if not lane.aside:
            await self._turns.isolation.enter(lane.name)
        if self._turns.draining:
            raise TurnSuspended
        lane.claim = None
        # A stop that is stored right behind the claim must find whom to tell.
        lane.stop = CancelToken()
        claim = await self._database.transact(self._claim, lane)
        lane.waits = False
        if claim is None:
            return False
        if isinstance(claim, SessionBusy):
            return await self._wait_for(claim, lane)
        lane.claim = claim
        # Also for what is said of it should it break: this task is the lane's.
        set_locale(self._delivery.languages.of_claim(claim))
        await self._handle(claim, lane, lane.stop)
        self.handled += 1
        return True

    def _is_command(self, message: InboundMessage) -> bool:
        return self._commands.read(message) is not None

    def _is_at_once(self, message: InboundMessage) -> bool:
        typed = self._commands.read(message)
        return typed is not None and typed.at_once

    def _claim(self, tx: Transaction, lane: Lane) -> TurnClaim | CommandClaim | SessionBusy | None:
        if not inbox.is_run_here(tx, lane.name):
            return None
        if lane.aside:
            return claims.claim_at_once(tx, lane.name, self._is_at_once)
        reading = (self._is_command, self._turns.user_message)
        claim = claims.claim(tx, lane.name, time.time(), *reading)
        if isinstance(claim, SessionBusy) and not inbox.is_run_here(tx, claim.lane):
            # Nothing here ends that turn: looking again would only cost.
            return replace(claim, waits=True)
        return claim

    async def _wait_for(self, busy: SessionBusy, lane: Lane) -> bool:
        """Wait for another lane's turn in the same session; False to rest until it is over."""
        waiting = self._waits_for.setdefault(busy.lane, set())
        if busy.waits:
            # Noted before the claim that found it still waiting: whatever ends it wakes us.
            was_noted = lane.name in waiting
            waiting.add(lane.name)
            return not was_noted
        waiting.add(lane.name)
        # It may have ended just before this was noted.
        with suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await lane.wake.wait()
        return True

    async def _handle(self, claim: TurnClaim | CommandClaim, lane: Lane, stop: CancelToken) -> None:
        try:
            if isinstance(claim, CommandClaim) and self._commands.takes_time(claim):
                async with self._slots:
                    text = await self._commands.work(claim, time.time())
                await self._database.transact(self._answer_command, claim, text)
                self._delivery.wake(claim.message.session_key)
            elif isinstance(claim, CommandClaim):
                await self._database.transact(self._carry_out, claim)
                await self.audit_relay.flush()
                for told in (claim.message.session_key, *self.pairing.mention_lanes()):
                    self._delivery.wake(told)
            else:
                # A sub-agent waits for its conversation's room before it takes one from all chats.
                async with await self._turns.subagents.slot(claim), self._slots:
                    await self._run_turn(claim, lane, stop)
        except (TurnSuspended, AwaitingAnswer, StoreError) as exc:
            if isinstance(claim, TurnClaim):
                self._turns.windows.evict(claim.session)
            if isinstance(exc, AwaitingAnswer):
                await self._approvals.publish_open(lane.name)
            raise

    async def _fail_claim(self, claim: TurnClaim | CommandClaim) -> None:
        """End what a bug has broken; the chat is told."""
        sentence = t(
            "⚠️ Internal error while handling message {n}. It is logged; try again.", n=claim.seq
        )
        if isinstance(claim, TurnClaim):
            await self._turns.give_up(claim, sentence)
        else:
            await self._database.transact(self._answer_command, claim, sentence)
            self._delivery.wake(claim.message.session_key)
        self.handled += 1

    async def _run_turn(self, claim: TurnClaim, lane: Lane, stop: CancelToken) -> None:
        if claim.exhausted:
            sentence = t("⚠️ I gave up on this message after several failed attempts.")
            if not claim.messages[-1].lane:  # a sub-agent's task is not replayed
                sentence += " " + t(
                    "The message is saved: `kore replay {n}` retries it.", n=claim.seq
                )
            await self._turns.give_up(claim, sentence)
        elif self._turns.draining:
            raise TurnSuspended
        else:
            await self._turns.run(claim, stop, lane.wake.is_set)

    def _carry_out(self, tx: Transaction, claim: CommandClaim) -> None:
        if inbox.is_unanswered(tx, claim.seq):
            now = time.time()
            # As the list that is answered with had them.
            asks = self._delivery.asks(claim.message.route) is not None
            found = self._commands.buttons(tx, claim, now) if asks else ()
            clean = self._delivery.redactor.clean
            buttons = tuple(replace(one, label=clean(one.label)) for one in found)
            text = self._commands.carry_out(tx, claim, now)
            self._answer_command(tx, claim, text, buttons)

    def _answer_command(
        self,
        tx: Transaction,
        claim: CommandClaim,
        text: str,
        buttons: tuple[Button, ...] = (),
    ) -> None:
        if not inbox.is_unanswered(tx, claim.seq):
            return  # it has gone past the queue meanwhile
        message = claim.message
        if claim.session is not None:
            # It may show titles and paths that a model has chosen.
            text = quiet(text, sessions.taint_of(tx, claim.session))
        *above, last = self._delivery.render(message.route, text)
        letter = OutgoingReply(
            delivery_id="",  # `finish_command` names it
            route=message.route,
            parts=[*above, replace(last, buttons=buttons)],
            reply_to=message.answer_to,
            event_id=message.event_id,
        )
        turns.finish_command(tx, claim.seq, letter, time.time())
