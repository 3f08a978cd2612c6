"""Message bus: stores incoming messages durably and processes each lane in a task."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from agent.events import Notice
from agent.i18n import set_locale, t
from agent.security.files.folder_identity import FolderReplaced
from agent.turn.journal import CancelToken
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.bus.command_runner import CommandRunner
from gateway.bus.ingest import Ingestor, IngestResult
from gateway.bus.interrupts import StopResult
from gateway.bus.link import ProcessLink, SoleProcess
from gateway.core.channel_events import Batch
from gateway.core.errors import AwaitingAnswer, TurnSuspended
from gateway.core.event_hub import EventHub
from gateway.core.messages import InboundMessage
from gateway.core.records import CommandAnswer
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.delivery.user_language import UserLanguages
from gateway.sessions.working_folder import describe_refusal
from gateway.store.errors import StoreBusy, StoreCorrupt, StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.execution import claims
from gateway.store.repositories.execution.claims import (
    CommandClaim,
    HeldElsewhere,
    SessionBusy,
    TurnClaim,
)
from gateway.turns.agents.subagents import SubagentCoordinator
from gateway.turns.goals import GoalService
from gateway.turns.isolation import Isolation
from gateway.turns.runner import TurnRunner

log = logging.getLogger(__name__)

# Limit of concurrent turns over all lanes.
MAX_CONCURRENT_TURNS = 128
_RETRY_INTERVAL_S = 2.0


class Lane:
    """Queue of a chat: waiting messages are on disk, running work is here.

    `claim` is in progress; `failed_claim` failed because of a bug that is not reported yet. A lane
    with `is_bypass` runs commands that bypass the queue. `waits_for_store` means that the disk is
    full or busy and viewers were notified.
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
        """Report that the lane waits for the disk, but only once, because it retries every few
        seconds.
        """
        if not self.waits_for_store:
            log.error("lane %s waits: %s", self.name, why)
            text = t(
                "⏳ The database cannot be written right now. This continues as soon as it can."
            )
            events.publish(self.name, Notice("warning", text))
        self.waits_for_store = True

    def report_damage(self, why: StoreCorrupt, events: EventHub) -> None:
        """Suspend the lane, because nothing can be answered or stored with a damaged file."""
        log.error("lane %s is paused: %s", self.name, why)
        events.fail(self.name, why)


class MessageBus:
    """Message bus: `accept` stores input; `run` processes lanes concurrently, each in order."""

    def __init__(  # noqa: PLR0913 - collaborators, passed only by the container
        self,
        *,
        database: Store,
        ingestor: Ingestor,
        commands: CommandRunner,
        turns: TurnRunner,
        goals: GoalService,
        isolation: Isolation,
        subagents: SubagentCoordinator,
        approvals: ApprovalCoordinator,
        renderer: ReplyRenderer,
        sender: OutboxSender,
        languages: UserLanguages,
        events: EventHub,
        concurrent_turns: int = MAX_CONCURRENT_TURNS,
        link: ProcessLink | None = None,
    ) -> None:
        self._link = link or SoleProcess()
        self._scope = self._link.scope
        if self._link.is_shared:
            self._scope = replace(self._scope, max_subagents=subagents.max_parallel)
        self._database = database
        self._ingestor = ingestor
        self._commands = commands
        self._turns = turns
        self._goals = goals
        self._isolation = isolation
        self._subagents = subagents
        self._approvals = approvals
        self._renderer = renderer
        self._sender = sender
        self._languages = languages
        self._events = events
        self._lanes: dict[tuple[str, bool], Lane] = {}
        self._waits_for: dict[str, set[str]] = {}
        self._group: asyncio.TaskGroup | None = None
        # True while `run` wakes the lanes of an earlier process.
        self._is_resuming = False
        self._slots = asyncio.Semaphore(concurrent_turns)
        self._idle = asyncio.Event()
        self._idle.set()
        self.accepted_count = 0
        self.handled_count = 0

    async def accept(self, channel: str, account: str, batch: Batch) -> None:
        """Store a poll's messages and its cursors in one transaction, then wake their lanes.

        Waits while too many messages wait or the disk is nearly full; the channel confirms nothing
        until this returns. Raises `StoreError`; then nothing is stored.
        """
        result = await self._ingestor.take(channel, account, batch)
        self.accepted_count += len(batch.messages)
        lanes_of_others = self._lanes_of_others(batch, result)
        for lane in result.lanes - lanes_of_others:
            self.wake(lane)
        for lane in lanes_of_others:
            self._link.pass_on(lane, None)
        for lane in result.command_lanes:
            self.wake(lane, aside=True)
        for lane in result.mail_lanes:
            self._sender.wake(lane)
        self._approvals.publish_closed(result.closed_approvals)
        for press in result.button_outcomes:
            if self._group is not None:
                self._group.create_task(self._approvals.acknowledge(press), name="a press")
        for lane in result.lanes_to_stop:
            self._request_stop(lane)
        for message in result.new_messages:
            if self._group is not None and (at := self._renderer.can_react(message.route)):
                reaction = at.show_received(message.route, message.message_id)
                self._group.create_task(reaction, name="a reaction")

    def _lanes_of_others(self, batch: Batch, result: IngestResult) -> set[str]:
        """Return the lanes whose new messages are all for turns of other processes.

        Those processes check the lanes, so waking them here would only cost a transaction.
        """
        if not self._link.is_shared:
            return set()
        takes = self._link.scope.takes
        arrived = Counter(message.session_key for message in batch.messages)
        others = Counter(
            message.session_key for message in result.new_messages if not takes(message)
        )
        return {
            lane
            for lane, count in others.items()
            if count == arrived[lane] and lane in result.lanes and not self.is_at_work(lane)
        }

    async def submit(
        self, message: InboundMessage, on_new: Callable[[Transaction], None] | None = None
    ) -> None:
        """Store one message from a source without a cursor; return once it is on disk.

        `on_new` is called in the transaction that stores it, and not for a known message. Raises
        `KoreError` when the queue or the disk is full.
        """
        await self.accept(
            message.channel, message.account, Batch([message], can_wait=False, on_new=on_new)
        )

    def wake(self, name: str, *, aside: bool = False) -> None:
        """Wake the task of this lane; with `aside`, the task for its bypass."""
        if self._group is None:
            return  # `run` starts with every lane that has work.
        lane = self._lanes.get((name, aside))
        if lane is None:
            lane = self._lanes[name, aside] = Lane(name, is_bypass=aside)
            self._idle.clear()
            self._group.create_task(self._work(lane), name=f"lane {name}")
        lane.wake.set()

    async def run(self) -> None:
        """Process lanes until cancelled, starting with work of an earlier process."""
        async with asyncio.TaskGroup() as group:
            self._group, self._is_resuming = group, True
            try:
                self._isolation.begin(await self._suspects())
                for lane in await self._database.transact(self._link.first_lanes):
                    self.wake(lane)
                    self.wake(lane, aside=True)
                self._is_resuming = False
                if self._link.scope.worker is None:
                    await self._approvals.run()
                else:
                    await asyncio.Event().wait()
            finally:
                self._group, self._is_resuming = None, False

    async def stop(self, lane: str) -> bool:
        """Stop the lane's running turn; return False if none is running."""
        result = await self._ingestor.stop(lane)
        self._carry_out(result)
        return result.stopping is not None

    async def stop_subagent(self, lane: str, number: str) -> str:
        """Stop only this sub-agent of a chat; return a sentence about it."""
        result, sentence = await self._ingestor.stop_subagent(lane, number)
        self._carry_out(result)
        return sentence

    def _carry_out(self, result: StopResult) -> None:
        self._approvals.publish_closed(result.closed_approvals)
        for stopping_lane in result.lanes_to_stop:
            self._request_stop(stopping_lane)
        for waiting_lane in result.lanes_to_wake:
            self.wake(waiting_lane)

    async def drain(self) -> None:
        """Start no new turns; wait until running turns have ended or paused at a journaled step."""
        self._turns.drain()
        self._isolation.end()
        await self._idle.wait()

    @property
    def obstacle(self) -> str | None:
        """Reason for not accepting messages now; None if they are accepted."""
        return self._ingestor.obstacle

    @property
    def lanes(self) -> int:
        """Number of lanes with work, plus one until `run` has queried them."""
        return len(self._lanes) + self._is_resuming

    def is_at_work(self, lane: str) -> bool:
        return (lane, False) in self._lanes

    def is_isolated(self, lane: str) -> bool:
        """Return whether a turn that may have ended a process can run on this lane now."""
        return self._isolation.is_at_work(lane)

    async def isolate(self) -> None:
        """Run turns that may have ended a process separately, if this process is idle."""
        if not self._lanes and (groups := await self._suspects()) and not self._lanes:
            self._isolation.begin(groups)
            for lane in chain.from_iterable(groups):
                self.wake(lane)

    def stop_now(self, lane: str) -> bool:
        """Request the end of the lane's turn if it runs here; its stop is already stored."""
        lane_here = self._lanes.get((lane, False))
        if lane_here is None or lane_here.stop is None:
            return False
        lane_here.stop.request()
        return True

    async def _suspects(self) -> list[list[str]]:
        groups = await self._database.transact(claims.suspect_groups)
        if groups:
            log.warning(
                "turns were interrupted repeatedly: running %d of them in %d groups",
                sum(map(len, groups)),
                len(groups),
            )
        return groups

    def _request_stop(self, name: str) -> None:
        """Request the end of a running turn in any process; its stop is already stored."""
        self.stop_now(name)
        self._link.request_stop(name)

    async def _work(self, lane: Lane) -> None:
        """Claim and handle work until nothing is left."""
        try:
            while await self._process_next(lane):
                pass
        finally:
            del self._lanes[lane.name, lane.is_bypass]
            if not self._lanes:
                self._idle.set()

    async def _process_next(self, lane: Lane) -> bool:
        """Process the lane's next item; return False if it has none or must pause."""
        broken, lane.failed_claim = lane.failed_claim, None
        try:
            if broken is None:
                lane.wake.clear()
                return await self._claim_and_handle(lane) or lane.wake.is_set()
            await self._fail_claim(broken)
            return True
        except TurnSuspended:
            return False
        except AwaitingAnswer:
            # A person may have answered before the turn was paused.
            return lane.wake.is_set()
        except StoreBusy as exc:
            lane.report_store_wait(exc, self._events)
            lane.failed_claim = broken
            await asyncio.sleep(_RETRY_INTERVAL_S)
            return True
        except StoreCorrupt as exc:
            lane.report_damage(exc, self._events)
            return False
        except Exception:
            # A bug, or an error of the database, costs one answer, not the chat, and is reported.
            # If even the report fails, the lane is suspended until woken.
            log.exception("lane %s failed", lane.name)
            lane.failed_claim = lane.claim if broken is None else None
            return lane.failed_claim is not None
        finally:
            lane.stop = None
            if not lane.is_bypass:
                self._isolation.leave(lane.name)
            for other in () if lane.is_bypass else self._waits_for.pop(lane.name, ()):
                self.wake(other)

    async def _claim_and_handle(self, lane: Lane) -> bool:
        """Handle the lane's next item; return False if there is none."""
        if not lane.is_bypass:
            await self._isolation.enter(lane.name)
        if self._turns.is_draining:
            raise TurnSuspended
        lane.claim = None
        # Create the token first, so that a stop stored right after the claim finds it.
        lane.stop = CancelToken()
        claim = await self._database.transact(self._claim, lane)
        lane.waits_for_store = False
        if claim is None:
            return False
        if isinstance(claim, SessionBusy):
            return await self._wait_for(claim, lane)
        if isinstance(claim, HeldElsewhere):
            self._link.pass_on(lane.name, claim.worker)
            return False
        lane.claim = claim
        # Also used for an error message, since this task belongs to the lane.
        set_locale(self._languages.of_claim(claim))
        has_more = await self._handle(claim, lane, lane.stop)
        self.handled_count += 1
        return has_more

    def _claim(
        self, tx: Transaction, lane: Lane
    ) -> TurnClaim | CommandClaim | SessionBusy | HeldElsewhere | None:
        scope = self._scope
        if lane.is_bypass:
            if not inbox.is_run_here(tx, lane.name):
                return None
            return claims.claim_at_once(tx, lane.name, self._commands.is_at_once, scope)
        reading = (self._commands.is_command, self._turns.compose)
        claim = claims.claim(tx, lane.name, time.time(), *reading, scope)
        if isinstance(claim, SessionBusy) and not inbox.is_run_here(tx, claim.lane):
            # No code here ends that turn, so polling would be wasteful.
            return replace(claim, waits=True)
        return claim

    async def _wait_for(self, busy: SessionBusy, lane: Lane) -> bool:
        """Wait for another lane's turn in the same session; False to pause until it ends."""
        waiting = self._waits_for.setdefault(busy.lane, set())
        if busy.waits:
            # If this lane was registered before the claim, the end of the other turn wakes it.
            was_noted = lane.name in waiting
            waiting.add(lane.name)
            return not was_noted
        waiting.add(lane.name)
        # The turn may have ended just before the registration.
        with suppress(TimeoutError):
            async with asyncio.timeout(_RETRY_INTERVAL_S):
                await lane.wake.wait()
        return True

    async def _handle(self, claim: TurnClaim | CommandClaim, lane: Lane, stop: CancelToken) -> bool:
        """Handle a claim; return whether the lane may have more work without another wake-up."""
        try:
            if isinstance(claim, CommandClaim) and claim.message.is_for_goal:
                async with self._slots:
                    await self._goals.check(claim)
            elif isinstance(claim, CommandClaim) and self._commands.takes_time(claim):
                async with self._slots:
                    await self._commands.run_slow(claim)
            elif isinstance(claim, CommandClaim):
                await self._commands.run_quick(claim)
            else:
                # Wait for the conversation's slot before taking a slot shared by all chats.
                async with await self._subagents.slot(claim), self._slots:
                    return await self._run_turn(claim, lane, stop)
            return True
        except (TurnSuspended, AwaitingAnswer, StoreError) as exc:
            if isinstance(claim, TurnClaim):
                self._turns.evict(claim.session)
            if isinstance(exc, AwaitingAnswer):
                await self._approvals.publish_open(lane.name)
                if isinstance(claim, TurnClaim) and self._link.is_shared:
                    await self._turns.pin(claim.session)
                    await self._database.transact(claims.release, claim.turn)
                    await self._subagents.wake_next(claim)
            raise

    async def _fail_claim(self, claim: TurnClaim | CommandClaim) -> None:
        """End a claim that failed because of a bug, and notify the chat."""
        sentence = t(
            "⚠️ Internal error while handling message {n}. It is logged; try again.", n=claim.seq
        )
        if isinstance(claim, TurnClaim):
            await self._turns.give_up(claim, sentence)
        elif claim.message.is_for_goal:
            await self._goals.give_up_check(claim, sentence)
        else:
            await self._commands.answer(claim, CommandAnswer(sentence, "refused"))
        self.handled_count += 1

    async def _run_turn(self, claim: TurnClaim, lane: Lane, stop: CancelToken) -> bool:
        if claim.exhausted:
            sentence = t("⚠️ I stopped working on this message: it was cut off each time.")
            if claim.messages[-1].kind != "subagent_task":  # sub-agent tasks are not replayed
                sentence += " " + t(
                    "The message is saved: `kore replay {n}` retries it.", n=claim.seq
                )
            await self._turns.give_up(claim, sentence, cause="cut_off")
            return True
        if self._turns.is_draining:
            raise TurnSuspended
        try:
            return await self._turns.run(claim, stop, lane.wake.is_set)
        except FolderReplaced as exc:
            await self._turns.give_up(claim, describe_refusal(exc), cause="ended_early")
            return True
