"""Compaction of sessions, in the background or for a turn that needs room."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent.agent import Agent
from agent.context.compaction.compactor import GOAL, shorten
from agent.context.compaction.summarizer import DroppedMessages, Summariser
from agent.errors import ConfigError, KoreError
from agent.events import Compacted
from agent.i18n import t
from agent.records import frozen
from agent.tools.base import ToolEnvironment
from agent.turn.context_usage import PromptAudience, measure_context, tokens_of
from agent.turn.hook_chain import report_outside_turn
from gateway.core.event_hub import EventHub
from gateway.core.messages import CONSOLE, InboundMessage
from gateway.core.tasks import run_to_completion
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.sessions.window_cache import SessionWindowCache
from gateway.store.port import Store
from gateway.store.repositories.conversations import choices, sessions
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution import turns, windows
from gateway.store.repositories.execution.claims import CommandClaim, TurnClaim
from gateway.store.repositories.execution.windows import SessionWindow, StoredSummary
from gateway.turns.agents.profiles import with_model
from gateway.turns.usage.meter import StoreUsageMeter

if TYPE_CHECKING:
    from agent.context.compaction.compactor import CompactionResult
    from agent.context.request_prefix import RequestPrefix

log = logging.getLogger(__name__)


class CompactionBlocked(KoreError):
    """A hook blocked a compaction."""


WORKERS = 2
_MAX_WAITING = 64
# Consecutive failures per session, after which only turns without room left try again.
_MAX_FAILURES = 3
_MAX_REMEMBERED = 1_000
# Number of stored request prefixes, for the most recent sessions; each is a few kilobytes. Older
# ones are useless, because a vendor's cache expires within minutes.
_PREFIXES = 100
# Share of the window below which a session is not measured.
_SURELY_ROOM = 0.25
_MANY_MESSAGES = 500


@frozen
class CompactionJob:
    """Session to check; `focus` means that a person requested the summary, and names its main
    content.
    """

    claim: TurnClaim
    audience: PromptAudience
    focus: str | None = None


@frozen
class CompactionOutcome:
    """Stored compaction, and the window that it was made from."""

    window: SessionWindow
    result: "CompactionResult"


@dataclass(slots=True)
class RunningCompaction:
    """Summary in progress.

    A waiting turn notifies the screens; a command that started the summary or waits for it answers
    the chat.
    """

    task: "asyncio.Task[CompactionOutcome | None]"
    has_waiting_turn: bool = False
    is_answered: bool = False


@dataclass(slots=True, kw_only=True)
class CompactionService:
    """Service that compacts sessions.

    A result is stored in one transaction: a crash leaves the old state or the new state.
    """

    database: Store
    agent: Agent
    windows: SessionWindowCache
    renderer: ReplyRenderer
    sender: OutboxSender
    events: EventHub
    usage: StoreUsageMeter
    audience: Callable[[InboundMessage], PromptAudience]
    _jobs: asyncio.Queue[CompactionJob] = field(default_factory=lambda: asyncio.Queue(_MAX_WAITING))
    _under_way: set[str] = field(default_factory=set)
    _running: dict[str, RunningCompaction] = field(default_factory=dict)
    _failed: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _prefixes: "OrderedDict[str, RequestPrefix]" = field(default_factory=OrderedDict)

    def keeper(self, claim: TurnClaim, window: SessionWindow) -> "TurnKeeper":
        """Return the compaction store for a turn."""
        return TurnKeeper(self, claim, window)

    def remember_prefix(self, session: str, prefix: "RequestPrefix") -> None:
        """Store the request prefix of the session's newest turn."""
        self._prefixes[session] = prefix
        self._prefixes.move_to_end(session)
        if len(self._prefixes) > _PREFIXES:
            self._prefixes.popitem(last=False)

    def consider(self, claim: TurnClaim, window: SessionWindow, model: str | None) -> None:
        """Schedule a compaction after a turn if its session is nearly full."""
        session = claim.session
        if session in self._under_way or session in self._running:
            return
        if self._failed.get(session, 0) >= _MAX_FAILURES:
            return
        if self._has_room(window, model) or self._jobs.full():
            return
        audience = replace(self.audience(claim.messages[-1]), model=model)
        if not self._is_full(window, audience):
            return
        self._under_way.add(session)
        self._jobs.put_nowait(CompactionJob(claim, audience))

    async def run(self) -> None:
        """Process jobs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for n in range(WORKERS):
                group.create_task(self._work(), name=f"compaction {n}")

    async def compact(self, claim: CommandClaim, focus: str) -> str:
        """Compact a session at a person's request and return the answer as markdown.

        A summary in progress is used unless the person names what to preserve. Raise `KoreError`
        if the compaction fails.
        """
        session = claim.session
        turn = await self.database.transact(turns.last_of, session) if session else None
        if not session or not turn:
            return t("There is nothing to summarize yet.")
        session_choices = await self.database.transact(choices.load, session)
        audience = self.audience(claim.message)
        audience = with_model(
            audience, claim.message, session_choices.get(choices.MODEL), self.agent.models
        )
        payer = TurnClaim(turn, claim.seq, session, [claim.message], resumed=True)
        made = await self._join_for_answer(session)
        if made is None or focus or not made.result.summarised_count:
            made = (await self._run(CompactionJob(payer, audience, focus))).result() or made
        if made is None:
            return t("There is nothing to summarize: the newest messages stay as they are.")
        return sentence(made.result)

    async def join(self, session: str) -> CompactionOutcome | None:
        """Return the result of a summary in progress, for a turn that needs room now."""
        running = self._running.get(session)
        if running is None:
            return None
        running.has_waiting_turn = True
        return await _outcome(running)

    async def _join_for_answer(self, session: str) -> CompactionOutcome | None:
        """Return the result of a summary in progress, as the answer to a command."""
        running = self._running.get(session)
        if running is None:
            return None
        running.is_answered = True
        return await _outcome(running)

    async def _work(self) -> None:
        while True:
            job = await self._jobs.get()
            try:
                task = await self._run(job)
            finally:
                self._under_way.discard(job.claim.session)
            self._note(job.claim.session, task.exception())

    async def _run(self, job: CompactionJob) -> "asyncio.Task[CompactionOutcome | None]":
        """Run the job and return its finished task.

        Each session has one task at a time, and others may wait for it.
        """
        session = job.claim.session
        while running := self._running.get(session):
            await asyncio.wait({running.task})
        # A separate task: a bug ends only this summary and is logged.
        task = asyncio.create_task(self._compact(job), name=f"summary of {session}")
        self._running[session] = RunningCompaction(task, is_answered=job.focus is not None)
        task.add_done_callback(lambda _: self._running.pop(session))
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            await asyncio.wait({task})
        return task

    def _note(self, session: str, error: BaseException | None) -> None:
        failures = self._failed.pop(session, 0)
        if error is None:
            return
        self._failed[session] = failures + 1
        if len(self._failed) > _MAX_REMEMBERED:
            self._failed.popitem(last=False)
        if isinstance(error, KoreError):
            log.warning("session %s could not be summarized: %s", session, error)
        else:
            log.error("summarizing session %s failed", session, exc_info=error)

    async def _compact(self, job: CompactionJob) -> CompactionOutcome | None:
        window = await self.database.transact(windows.load, job.claim.session)
        shorter = None
        try:
            if job.focus is not None or self._is_full(window, job.audience):
                shorter = await self._summarize(job, window)
        finally:
            # In any case: loading may have moved the beginning of the window.
            self.windows.evict(job.claim.session)
        if shorter is None:
            return None
        if not self._running[job.claim.session].has_waiting_turn:
            messages_left = len(shorter.apply(window.messages))
            event = Compacted(
                shorter.tokens_before,
                shorter.tokens_after,
                messages_left,
                0,
                shorter.summarised_count,
            )
            self.events.publish(job.claim.messages[-1].session_key, event)
        return CompactionOutcome(window, shorter)

    async def _summarize(
        self, job: CompactionJob, window: SessionWindow
    ) -> "CompactionResult | None":
        """Summarize and store the session.

        Return None if nothing is saved or the session's own turn was faster.
        """
        claim = job.claim
        await self._check_hooks(job)
        taint = await self.database.transact(sessions.taint_of, claim.session)
        goal = int(measure_context(self.agent, job.audience).limit * GOAL)
        dropped_messages = DroppedMessages(
            (), focus=job.focus or "", taint=taint, on_request=job.focus is not None
        )
        prefix = self._prefixes.get(claim.session)
        summariser = Summariser(self.agent.models, self.agent.redactor, prefix)
        conversation = window.conversation
        async with self.usage.meter(replace(claim, resumed=True)) as meter:
            shorter = await shorten(summariser, conversation, goal, dropped_messages, meter)
        if shorter is None:
            return None
        answered = self._running[claim.session].is_answered
        done = await self.keep(claim, window, shorter, answered=answered)
        return shorter if done else None

    async def _check_hooks(self, job: CompactionJob) -> None:
        """Raise `CompactionBlocked` if a hook blocks the compaction."""
        audience, agent = job.audience, self.agent
        environment = ToolEnvironment(
            session=job.claim.session,
            workspace=audience.root,
            memory=audience.memory,
            owner=audience.owner,
            places=agent.workspace.origin,
        )
        facts = {
            "trigger": "auto" if job.focus is None else "manual",
            "custom_instructions": job.focus or "",
        }
        words = await report_outside_turn(agent, "PreCompact", environment, facts)
        if words.refusal is not None:
            reason = agent.redactor.clean(words.refusal)
            raise CompactionBlocked(t("A hook blocked the summary: {why}", why=reason))

    async def keep(
        self,
        claim: TurnClaim,
        window: SessionWindow,
        shorter: "CompactionResult",
        *,
        answered: bool = False,
    ) -> bool:
        """Store the summary, the new beginning of the window and the notice for the chat.

        All are part of one transaction. Return False if the stored window has changed.
        """
        reply = (
            None
            if answered or not shorter.summarised_count
            else self._notice_reply(claim, window, shorter)
        )
        stored = StoredSummary.of(claim.session, window, shorter, reply)
        done = await self.database.transact(windows.keep, stored, time.time())
        if done and reply is not None:
            self.sender.wake(reply.route.lane)
        return done

    def _notice_reply(
        self, claim: TurnClaim, window: SessionWindow, shorter: "CompactionResult"
    ) -> OutgoingReply | None:
        """Return the notice for the chat; None for a terminal, which receives an event."""
        message = claim.messages[-1]
        if message.channel == CONSOLE:
            return None
        parts = self.renderer.render(message.route, f"🗜 {sentence(shorter)}")
        name = f"compacted:{claim.session}:{window.head}"
        return OutgoingReply(name, message.route, parts, "notice")

    def _has_room(self, window: SessionWindow, model: str | None) -> bool:
        """Return whether the session clearly has room, without a measurement."""
        if len(window.messages) >= _MANY_MESSAGES:
            return False
        try:
            most = self.agent.models.open(model).window_tokens * _SURELY_ROOM
            return window.conversation.tokens < most
        except ConfigError:
            return True

    def _is_full(self, window: SessionWindow, audience: PromptAudience) -> bool:
        if self._has_room(window, audience.model):
            return False
        try:
            room = measure_context(self.agent, audience)
        except ConfigError:
            return False
        tokens = tokens_of(self.agent, audience, window.conversation, room)
        return room.is_full(tokens, len(window.messages))


@frozen
class TurnKeeper:
    """Implements `agent.context.compaction.compactor.CompactionStore` for a turn.

    It stores a compaction and shortens the turn's window.
    """

    compactions: CompactionService
    claim: TurnClaim
    window: SessionWindow

    async def keep(self, shorter: "CompactionResult") -> bool:
        return await run_to_completion(self._keep(shorter))

    def remember_prefix(self, prefix: "RequestPrefix") -> None:
        self.compactions.remember_prefix(self.claim.session, prefix)

    async def made(self) -> "CompactionResult | None":
        made = await self.compactions.join(self.claim.session)
        window = self.window
        if made is None or (made.window.head, made.window.request) != (window.head, window.request):
            return None
        window.shorten(made.result)
        return made.result

    async def _keep(self, shorter: "CompactionResult") -> bool:
        done = await self.compactions.keep(self.claim, self.window, shorter)
        if done:
            self.window.shorten(shorter)
        return done


async def _outcome(running: RunningCompaction) -> CompactionOutcome | None:
    await asyncio.wait({running.task})
    failed = running.task.cancelled() or running.task.exception() is not None
    return None if failed else running.task.result()


def sentence(shorter: "CompactionResult") -> str:
    """Return the sentence that informs people about a compaction."""
    size = t(
        "about {before:,} tokens reduced to {after:,}",
        before=shorter.tokens_before,
        after=shorter.tokens_after,
    )
    if not shorter.summarised_count:
        return t("Old tool results were shortened: {size}.", size=size)
    return t(
        "{summarised:,} older messages were summarized: {size}. /context shows more.",
        summarised=shorter.summarised_count,
        size=size,
    )
