"""One turn: load, run the agent, commit, hand to delivery. Owns the turn's transactions."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from agent import events
from agent.agent import Agent
from agent.history_validation import unanswered_calls
from agent.security.taint.taint import NOTHING, UNTRUSTED, TaintState
from agent.serialization import event_to_json
from agent.turn.context_usage import PromptAudience
from agent.turn.journal import CancelToken
from agent.turn.request import TurnRequest
from agent.types import Message
from agent.undo.recorder import RecorderFactory
from agent.usage import UsageTotals
from gateway.core.errors import AwaitingAnswer
from gateway.core.event_hub import EventHub
from gateway.core.link_defusing import defuse_answer
from gateway.core.messages import ONCE, InboundMessage
from gateway.delivery.preview import StreamingPreview
from gateway.delivery.sender import OutboxSender
from gateway.sessions.background_work import BackgroundWork
from gateway.sessions.conversation_search import ConversationSearch
from gateway.sessions.window_cache import SessionWindowCache
from gateway.store.port import Store, Transaction
from gateway.store.repositories import sessions, subagent_tasks, turns
from gateway.store.repositories.claims import TurnClaim
from gateway.store.repositories.inbox import taint_of_quotes
from gateway.store.repositories.outbox import OutgoingReply
from gateway.store.repositories.subagent_tasks import SubagentTask
from gateway.store.repositories.turns import FinishedTurn
from gateway.store.repositories.windows import SessionWindow
from gateway.turns import outcome
from gateway.turns.compaction import CompactionService
from gateway.turns.disclosure_budget import StoredDisclosureBudget
from gateway.turns.isolation import Isolation
from gateway.turns.job_hooks import JobHooks
from gateway.turns.journal import StoreTurnJournal
from gateway.turns.live_preview import preview_for_turn
from gateway.turns.outcome import FROM_AGENT, TurnOutcome
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import (
    build_user_message,
    initial_taint,
    is_said,
    long_task_note,
    opening_events,
    shown_taint,
)
from gateway.turns.steering import Steering
from gateway.turns.subagents import SubagentCoordinator
from gateway.turns.trace import trace_of
from gateway.turns.usage_meter import StoreUsageMeter


class TurnRunner:
    """Runs claimed turns. One instance serves all lanes."""

    def __init__(  # noqa: PLR0913 - its collaborators, named once in the container
        self,
        database: Store,
        agent: Agent,
        delivery: OutboxSender,
        watchers: EventHub,
        rules: TurnPermissions,
        spending: StoreUsageMeter,
        jobs: JobHooks,
        is_command: Callable[[InboundMessage], bool],
    ) -> None:
        self.windows = SessionWindowCache(database)
        self.isolation = Isolation()
        self.draining = False
        self._database = database
        self._agent = agent
        self._delivery = delivery
        self.events = watchers
        self._rules = rules
        self._usage = spending
        self.compactions = CompactionService(
            database, agent, self.windows, delivery, watchers, spending, self.speaking
        )
        self.subagents = SubagentCoordinator(database, agent, rules, delivery)
        self.background = BackgroundWork(agent, database, watchers)
        self._jobs = jobs
        self._is_command = is_command

    async def run(
        self, claim: TurnClaim, stop: CancelToken, has_news: Callable[[], bool] = lambda: True
    ) -> None:
        """Run to the final commit; `has_news` says whether anybody wrote since the claim.

        Raises `TurnSuspended` when the process goes down meanwhile, and `AwaitingAnswer` when a
        person has to answer first.
        """
        asked = claim.asked or self.user_message(claim.messages)
        if not claim.resumed:
            asked = await self.background.with_background_notes(claim, asked)
        window = await self.windows.open(claim.session, asked)
        journal = StoreTurnJournal(
            self._database,
            claim,
            window.messages,
            self._agent.toolbox,
            lambda: self.draining,
            lambda: self.isolation.leave(claim.messages[-1].session_key),
        )
        errands = await self.subagents.of(claim)
        first = errands[0] if errands else None
        async with self._usage.meter(claim, first) as meter:
            task = replace(await self._task(claim, window, journal, stop), meter=meter)
            if first is not None:
                task = await self.subagents.subagent_request(claim, task, first)
            else:
                task = await self.subagents.user_request(claim, task)
            journal.steering = Steering(
                self._database,
                claim,
                task.exposure,
                lambda: claim.resumed or has_news(),
                self._rules.is_untrusted,
                self._is_command,
            )
            journal.recall(task.known)
            if claim.stop_requested:
                stop.request()
            before = window.messages[max(len(window.messages) - claim.stored + 1, 0) :]
            found = await (
                self._watch(task, claim) if first is None else self._run_subagent(task, first)
            )
            found.trace = self._trace(claim, before, found, meter.spent)
            found.undone = self._jobs.denied_summary(claim, task.permissions)
        await self._commit(claim, window, journal, found, task.exposure, errands)
        self.windows.count(claim.session)
        if first is None:
            self.compactions.consider(claim, window, task.model)

    def user_message(self, messages: Sequence[InboundMessage]) -> Message:
        """What a turn begins with that answers these."""
        last = messages[-1]
        work = long_task_note(last, self.speaking(last), self._agent.redactor.clean)
        return build_user_message(messages, work=work)

    async def give_up(self, claim: TurnClaim, sentence: str) -> None:
        """End a turn that cannot be run; the chat is told."""
        self.windows.evict(claim.session)
        errands = await self.subagents.of(claim)
        letters = [] if errands else [self._letter(claim, sentence)]
        ended = subagent_tasks.TaskOutcome("failed", sentence, claim.taint)

        def store(tx: Transaction) -> list[str]:
            now = time.time()
            turns.give_up(tx, claim.turn, letters, sentence, now)
            self._jobs.ended(tx, claim, sentence)
            return self.subagents.end(tx, errands, ended, now)

        self._wake(letters, await self._database.transact(store))
        for errand in errands:
            self._publish_for_subagent(errand, events.Error("error", sentence, None))
        if errands:
            await self.background.end(claim.session)

    async def _task(
        self, claim: TurnClaim, window: SessionWindow, journal: StoreTurnJournal, stop: CancelToken
    ) -> TurnRequest:
        message = claim.messages[-1]
        known = {}
        if claim.resumed and unanswered_calls(window.messages):
            known = await self._database.transact(
                lambda c: turns.known_results(c, claim.turn, stopped=claim.stop_requested)
            )
        speaking = self.speaking(message)
        taint = initial_taint(self._agent.workspace, speaking)
        if any(map(self._rules.is_untrusted, claim.messages)):
            taint |= UNTRUSTED
        if message.task is not None and message.lane:
            # It reads no file unasked; what it was told is in its taint already.
            taint = NOTHING
        taint |= shown_taint(claim.messages)
        quoting = [one for one in claim.messages if one.quoted and not one.quoted_own]
        if quoting:
            taint |= await self._database.transact(taint_of_quotes, quoting)
        if not taint <= claim.taint:
            await self._database.transact(sessions.add_taint, claim.session, taint)
        by_person = (is_said(one) and not self._rules.is_untrusted(one) for one in claim.messages)
        if claim.bits and not claim.resumed and any(by_person):
            await self._database.transact(sessions.renew_bits, claim.session)
        limit = message.options.get("max_iterations")
        return TurnRequest(
            session=claim.session,
            messages=window.messages,
            permissions=self._rules.permissions(
                claim.messages, claim.session, claim.mode, turn=claim.turn
            ),
            memory=speaking.memory,
            root=speaking.root,
            owner=speaking.owner,
            model=message.model or claim.model or speaking.model,
            persona=speaking.persona,
            thinking=True if message.options.get("thinking") is True else claim.thinking.wanted,
            max_iterations=limit if isinstance(limit, int) else None,
            known=known,
            trimmed=window.trimmed,
            summary=window.summary,
            keeper=self.compactions.keeper(claim, window),
            begun=claim.stored - 1,
            exposure=TaintState(
                claim.taint | taint, budget=StoredDisclosureBudget(self._database, claim.session)
            ),
            recording=RecorderFactory(self._agent.changes, claim.turn),
            progress=journal,
            stop=stop,
            recall=ConversationSearch(self._database, self._rules.access, claim),
            schedule=self._jobs.of_turn(claim),
        )

    def speaking(self, message: InboundMessage) -> PromptAudience:
        """For whom the prompt is made, and where."""
        rules = self._rules
        owner = rules.access.is_private_owner(message)
        place = rules.access.places.of(message.route)
        told = (rules.memory(message), rules.working_dir(message), owner)
        return PromptAudience(*told, place.model, place.persona)

    async def _watch(self, task: TurnRequest, claim: TurnClaim) -> TurnOutcome:
        """Run the agent, and show its events to whoever watches."""
        said = outcome.said_before(task.messages, claim.stored - 1)
        preview = preview_for_turn(self._database, self._delivery, claim, task, said)
        if preview is None:
            return await self._drain(task, claim, None)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(preview.run(), name=f"preview of {claim.session}")
                try:
                    found = await self._drain(task, claim, preview)
                except AwaitingAnswer as exc:
                    preview.set_paused(exc.sentence)
                    raise
                finally:
                    # The group waits for an update under way: the final must know its message.
                    preview.close()
        except BaseExceptionGroup as several:
            raise outcome.root_cause(several) from None
        found.shown = preview.pages
        return found

    async def _run_subagent(self, task: TurnRequest, errand: SubagentTask) -> TurnOutcome:
        """Run a sub-agent, and show what it does in the chat that it works for."""
        found = TurnOutcome()
        async with aclosing(self._agent.turn(task)) as stream:
            async for event in stream:
                found.observe(event)
                if isinstance(event, events.Done):
                    event = events.Done(replace(event.result, messages=()))
                if isinstance(event, FROM_AGENT):
                    self._publish_for_subagent(errand, event)
        return found

    def _publish_for_subagent(self, errand: SubagentTask, event: events.Event) -> None:
        told = events.FromAgent(errand.agent, str(errand.id), errand.title, event_to_json(event))
        self.events.publish(errand.root_lane, told)

    async def _drain(
        self, task: TurnRequest, claim: TurnClaim, preview: StreamingPreview | None
    ) -> TurnOutcome:
        lane = claim.messages[-1].session_key
        found = TurnOutcome()
        for told in opening_events(claim):
            self.events.publish(lane, told)
        with self.events.turn(lane):
            async with aclosing(self._agent.turn(task)) as stream:
                async for event in stream:
                    found.observe(event)
                    if preview is not None:
                        preview.feed(event)
                    if not claim.thinking.hides(event):
                        self.events.publish(lane, event)
        return found

    async def _commit(
        self,
        claim: TurnClaim,
        window: SessionWindow,
        journal: StoreTurnJournal,
        found: TurnOutcome,
        exposure: TaintState,
        errands: Sequence[SubagentTask],
    ) -> None:
        """History, outbox and turn in one transaction, and what tells of an errand; then whoever
        waits for it is woken."""
        assert found.result is not None, "a turn ends with Done"
        rows = [*found.result.messages[journal.saved :], *outcome.closing_messages(found)]
        dropped = outcome.whole_rounds(found.dropped, window.messages)
        text = defuse_answer(outcome.answer(found), exposure)
        is_told = not errands and not self._jobs.is_silent(claim, found)
        letter = replace(
            self._letter(claim, text), taint=exposure.taint, is_read=True, shown=found.shown
        )
        letters = [letter] if is_told else []
        turn_result = FinishedTurn(rows, letters, window.number(dropped - 1) if dropped else 0)

        def store(tx: Transaction) -> list[str]:
            now = time.time()
            turns.finish(tx, claim.turn, claim.session, turn_result, now)
            self._jobs.ended(tx, claim, outcome.failure(found))
            told = outcome.outcome(found, exposure.taint) if errands else None
            return self.subagents.end(tx, errands, told, now) if told else []

        lanes = await self._database.transact(store)
        journal.mark_stored(rows)
        if dropped:
            window.drop(dropped)
        lane = claim.messages[-1].route.lane
        is_left = lane.startswith(ONCE) and await self.background.close_if_abandoned(
            claim.session, lane
        )
        self._wake(letters, lanes)
        if errands or is_left:
            await self._agent.toolbox.end(claim.session)

    def _trace(
        self, claim: TurnClaim, before: Sequence[Message], found: TurnOutcome, spent: UsageTotals
    ) -> str:
        """What stands below the answer of what was done, `before` a restart and after it."""
        level = self._delivery.trace(claim.messages[-1].route)
        if level is None or found.result is None:
            return ""
        return trace_of(claim.trace or level, [*before, *found.result.messages], spent)

    def _wake(self, letters: Sequence[OutgoingReply], lanes: Sequence[str]) -> None:
        for letter in letters:
            self._delivery.wake(letter.route.lane)
        for lane in lanes:
            self.subagents.wake(lane)

    def _letter(self, claim: TurnClaim, markdown: str) -> OutgoingReply:
        message = claim.messages[-1]
        return OutgoingReply(
            delivery_id=f"t{claim.turn}",
            route=message.route,
            parts=self._delivery.render(message.route, markdown),
            reply_to=claim.reply_to,
            event_id=message.event_id,
        )
