"""One turn: load, run the agent, commit, hand to delivery. Owns the turn's transactions."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent import events
from agent.agent import Agent
from agent.context.long_task import describe_progress
from agent.history_validation import unanswered_calls
from agent.i18n import mark_for_translation, t
from agent.run.prompt import PromptContributor
from agent.security.files.folder_identity import FolderIdentity
from agent.security.taint.taint import TaintState
from agent.serialization import event_to_json
from agent.tools.base import Similarity, ToolEnvironment
from agent.turn.journal import CancelToken
from agent.turn.request import TurnRequest
from agent.types import Message
from agent.undo.recorder import RecorderFactory
from agent.usage import UsageTotals
from gateway.core.errors import AwaitingAnswer
from gateway.core.event_hub import EventHub
from gateway.core.link_defusing import defuse_answer
from gateway.core.messages import CONSOLE, ONCE, InboundMessage
from gateway.delivery.preview import StreamingPreview
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.sessions.background_work import BackgroundWork
from gateway.sessions.conversation_search import ConversationSearch
from gateway.sessions.editor_hub import EditorHub
from gateway.sessions.window_cache import SessionWindowCache
from gateway.sessions.working_folder import take_folder
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import memory_snapshots, sessions
from gateway.store.repositories.conversations.choices import MODEL, TRACE
from gateway.store.repositories.delivery import inbox, outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart
from gateway.store.repositories.execution import subagent_tasks, turns
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.subagent_tasks import SubagentTask
from gateway.store.repositories.execution.turns import FinishedTurn
from gateway.store.repositories.execution.windows import SessionWindow
from gateway.turns import outcome
from gateway.turns.agents.subagents import SubagentCoordinator
from gateway.turns.command_reports import CommandReports
from gateway.turns.compaction import CompactionService
from gateway.turns.disclosure_budget import StoredDisclosureBudget
from gateway.turns.isolation import Isolation
from gateway.turns.job_hooks import JobHooks
from gateway.turns.journal import StoreTurnJournal
from gateway.turns.live_preview import preview_for_turn
from gateway.turns.outcome import TurnOutcome
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import TurnDraft, build_user_message, is_said, opening_events
from gateway.turns.steering import Steering
from gateway.turns.trace import trace_of
from gateway.turns.usage.meter import StoreUsageMeter

if TYPE_CHECKING:
    from agent.code.watch.project_watches import ProjectWatches

# What stands in a preview that was longer than the answer.
ENDS_ABOVE = mark_for_translation("↑ The answer ends above.")


class TurnRunner:
    """Runs claimed turns. One instance serves all lanes."""

    def __init__(  # noqa: PLR0913 - its collaborators, named once in the container
        self,
        *,
        database: Store,
        agent: Agent,
        renderer: ReplyRenderer,
        sender: OutboxSender,
        events: EventHub,
        permissions: TurnPermissions,
        usage: StoreUsageMeter,
        windows: SessionWindowCache,
        isolation: Isolation,
        compactions: CompactionService,
        subagents: SubagentCoordinator,
        background: BackgroundWork,
        reports: CommandReports,
        jobs: JobHooks,
        contributors: Sequence[PromptContributor[TurnDraft]],
        is_command: Callable[[InboundMessage], bool],
        editors: EditorHub,
        similarity: Similarity | None = None,
        on_answer: Callable[[TurnClaim, str], None] = lambda claim, text: None,
    ) -> None:
        self._database = database
        self._agent = agent
        self._renderer = renderer
        self._sender = sender
        self._events = events
        self._permissions = permissions
        self._usage = usage
        self._windows = windows
        self._isolation = isolation
        self._compactions = compactions
        self._subagents = subagents
        self._background = background
        self._reports = reports
        self._jobs = jobs
        self._contributors = contributors
        self._is_command = is_command
        self._editors = editors
        self._similarity = similarity
        self._on_answer = on_answer
        self._draining = False

    @property
    def draining(self) -> bool:
        """Whether turns rest at their next journaled step, and none begins."""
        return self._draining

    def drain(self) -> None:
        self._draining = True

    async def pin(self, session: str) -> None:
        """Its turn rests or is over: see `BackgroundWork.pin`."""
        await self._background.pin(session)

    def evict(self, session: str) -> None:
        """Forget what is in memory of a session: its turn has not ended as it began."""
        self._windows.evict(session)

    async def run(
        self, claim: TurnClaim, stop: CancelToken, has_news: Callable[[], bool] = lambda: True
    ) -> bool:
        """Run to the final commit; `has_news` says whether anybody wrote since the claim. True when
        messages waited in the lane by then.

        Raises `TurnSuspended` when the process goes down meanwhile, and `AwaitingAnswer` when a
        person has to answer first.
        """
        began = time.monotonic()
        place = await take_folder(self._database, claim, self._permissions)
        self._agent.toolbox.views.restore(claim.session, claim.file_views)
        window = await self._windows.open(claim.session, claim.asked)
        draft = self._draft(claim, window)
        for contributor in self._contributors:
            await contributor.contribute(draft)
        await self._amend(draft, window)
        first = next(iter(errands := await self._subagents.of(claim)), None)
        async with self._usage.meter(claim, first) as meter:
            task = replace(await self._task(draft, window, stop, place), meter=meter)
            if first is not None:
                task = await self._subagents.subagent_request(claim, task, first)
            else:
                task = await self._subagents.user_request(claim, task)
            steering = Steering(
                database=self._database,
                claim=claim,
                taint_state=task.exposure,
                has_new_messages=lambda: claim.resumed or has_news(),
                is_untrusted=self._permissions.is_untrusted,
                is_command=self._is_command,
            )
            journal = StoreTurnJournal(
                database=self._database,
                claim=claim,
                history=window.messages,
                toolbox=self._agent.toolbox,
                steering=steering,
                is_draining=lambda: self._draining,
                on_step=lambda: self._isolation.leave(claim.messages[-1].session_key),
            )
            journal.recall(task.known)
            task = replace(task, progress=journal)
            if claim.stop_requested:
                stop.request()
            before = window.messages[max(len(window.messages) - claim.stored + 1, 0) :]
            ending = await (
                self._watch(task, claim) if first is None else self._run_subagent(task, first)
            )
            ending.trace = self._trace(claim, before, ending, meter.spent)
            ending.denied_summary = self._jobs.denied_summary(claim, task.permissions)
        # As long as its turn lives, no other process can begin one.
        await self.pin(claim.session)
        has_more = await self._commit(claim, window, journal, ending, task.exposure, errands)
        self._events.end_turn(claim.session)
        await self._usage.end_turn(claim, task.model, ending, meter.spent, began)
        self._windows.count(claim.session)
        if first is None:
            self._compactions.consider(claim, window, task.model)
        return has_more

    def user_message(self, messages: Sequence[InboundMessage], session_mode: str | None) -> Message:
        """What a turn begins with that answers these; `session_mode` is its conversation's."""
        last = messages[-1]
        audience = self._permissions.audience(last)
        work = ""
        # A sub-agent's caller tells it its part.
        if audience.owner and last.task is None:
            work = self._agent.redactor.clean(describe_progress(audience.root))
        mode: str = self._permissions.mode(last, session_mode)
        if all(map(self._permissions.has_full_access, messages)):
            mode = "full access"
        return build_user_message(messages, mode, work=work)

    async def give_up(self, claim: TurnClaim, sentence: str, *, has_failed: bool = True) -> None:
        """End a turn that cannot be run; the chat is told."""
        self._windows.evict(claim.session)
        self._usage.turns.give_up(claim.messages[-1], sentence)
        errands = await self._subagents.of(claim)
        letters = [] if errands else [self._letter(claim, sentence)]
        ended = subagent_tasks.TaskOutcome("failed", sentence, claim.taint)

        def store(tx: Transaction) -> list[str]:
            now = time.time()
            turns.give_up(tx, claim.turn, letters, sentence, now, has_failed=has_failed)
            self._jobs.record_end(tx, claim, sentence)
            return self._subagents.end(tx, errands, ended, now)

        self._wake(letters, await self._database.transact(store))
        self._events.end_turn(claim.session)
        for errand in errands:
            self._publish_for_subagent(errand, events.Error("error", sentence, None))
        if errands:
            await self._background.end(claim.session)

    def _draft(self, claim: TurnClaim, window: SessionWindow) -> TurnDraft:
        message = claim.messages[-1]
        audience = self._permissions.audience(message)
        is_subagent = message.kind == "subagent_task"
        is_new_request = not claim.resumed and any(map(is_said, claim.messages))
        if is_new_request:
            self._reports.heard_person(claim.session)
        model = message.model or claim.choices.get(MODEL)
        return TurnDraft(
            claim=claim,
            session=claim.session,
            message=claim.asked or window.messages[-1],
            conversation=window.conversation,
            audience=replace(audience, model=model or audience.model),
            upto=window.head,
            taint=claim.taint,
            thinking=True if message.options.thinking else claim.choices.thinking,
            is_resumed=claim.resumed,
            reads_workspace=not is_subagent,
            # A terminal describes its folder itself.
            describes_project=message.channel != CONSOLE and not is_subagent,
            # In mode "plan" nothing may be remembered.
            may_remember=is_new_request and self._permissions.mode(message, claim.mode) != "plan",
        )

    async def _amend(self, draft: TurnDraft, window: SessionWindow) -> None:
        """Store what contributors have added, in one transaction, before the model reads it."""
        claim = draft.claim
        is_changed = not claim.resumed and draft.message is not claim.asked
        renews_bits = (
            bool(claim.bits)
            and not claim.resumed
            and any(
                is_said(message) and not self._permissions.is_untrusted(message)
                for message in claim.messages
            )
        )

        def store(tx: Transaction) -> None:
            if is_changed:
                sessions.amend(tx, claim.session, claim.turn, draft.message)
            sessions.add_taint(tx, claim.session, draft.taint)
            if renews_bits:
                sessions.renew_bits(tx, claim.session)

        if is_changed or renews_bits or not draft.taint <= claim.taint:
            await self._database.transact(store)
        if is_changed:
            window.messages[-1] = draft.message
        for callback in draft.after_store:
            callback()

    async def _task(
        self, draft: TurnDraft, window: SessionWindow, stop: CancelToken, place: FolderIdentity
    ) -> TurnRequest:
        claim, audience = draft.claim, draft.audience
        message = claim.messages[-1]
        results = {}
        if claim.resumed and unanswered_calls(window.messages):
            results = await self._database.transact(
                lambda c: turns.known_results(c, claim.turn, stopped=claim.stop_requested)
            )
        past = ConversationSearch(self._database, self._permissions.access, claim, self._similarity)
        environment = ToolEnvironment(
            session=claim.session,
            workspace=audience.root,
            memory=audience.memory,
            owner=audience.owner,
            identity=place,
            recording=RecorderFactory(self._agent.changes, claim.turn),
            recall=past,
            recall_around=past.around,
            similarity=self._similarity,
            schedule=self._jobs.of_turn(claim),
            places=self._agent.workspace.origin,
            on_command_end=self._reports.of_turn(claim),
            elicit=self._permissions.elicit(claim.messages, claim.session, claim.turn),
            editor=self._editors.files_of(message.session_key),
        )
        return TurnRequest(
            environment=environment,
            messages=window.messages,
            permissions=self._permissions.permissions(
                claim.messages, claim.session, claim.mode, turn=claim.turn
            ),
            model=audience.model,
            persona=audience.persona,
            memory_text=await self._memory_text(claim, audience.memory),
            thinking=draft.thinking,
            max_iterations=message.options.max_iterations,
            known=results,
            trimmed=window.trimmed,
            summary=window.summary,
            keeper=self._compactions.keeper(claim, window),
            begun=claim.stored - 1,
            exposure=TaintState(
                draft.taint, budget=StoredDisclosureBudget(self._database, claim.session)
            ),
            stop=stop,
            hooks=self._agent.hooks,
            watches=self._watches(audience.root),
            join_source=self._editors.servers.of(message.session_key),
        )

    def _watches(self, folder: Path) -> "ProjectWatches | None":
        """Of a project: in the workspace nobody but Kore works."""
        is_watched = self._agent.settings.watch and folder != self._agent.workspace.folder
        return self._agent.watches if is_watched else None

    async def _memory_text(self, claim: TurnClaim, memory: Path) -> str | None:
        """The memory that the session began with, stored at its first turn; a sub-agent reads the
        file."""
        if claim.messages[-1].kind == "subagent_task":
            return None
        workspace = self._agent.workspace
        file = str(memory)
        if claim.memory is not None and claim.memory.file == file:
            return claim.memory.text
        if (text := workspace.memory_snapshot(memory)) is not None:
            await self._database.transact(memory_snapshots.save, claim.session, file, text)
        return text

    async def _watch(self, task: TurnRequest, claim: TurnClaim) -> TurnOutcome:
        """Run the agent, and publish its events to the lane's viewers."""
        earlier_texts = outcome.earlier_texts(task.messages, claim.stored - 1)
        parts = (self._database, self._renderer, claim, task.exposure)
        preview = preview_for_turn(*parts, earlier_texts)
        if preview is None:
            return await self._drain(task, claim, None)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(preview.run(), name=f"preview of {claim.session}")
                try:
                    ending = await self._drain(task, claim, preview)
                except AwaitingAnswer as exc:
                    preview.set_paused(exc.sentence)
                    raise
                finally:
                    # The group waits for an update under way: the final must know its message.
                    preview.close()
        except BaseExceptionGroup as several:
            raise outcome.root_cause(several) from None
        ending.preview_parts = preview.pages
        return ending

    async def _run_subagent(self, task: TurnRequest, errand: SubagentTask) -> TurnOutcome:
        """Run a sub-agent, and show what it does in the chat that it works for."""
        ending = TurnOutcome(is_owner=task.environment.owner)
        async with aclosing(self._agent.turn(task)) as stream:
            async for event in stream:
                ending.observe(event)
                if isinstance(event, events.Done):
                    event = events.Done(replace(event.result, messages=()))
                if isinstance(event, events.SubagentStep):
                    self._publish_for_subagent(errand, ending.public_form(event))
        return ending

    def _publish_for_subagent(self, errand: SubagentTask, event: events.Event) -> None:
        agent_event = events.FromAgent(
            errand.agent, str(errand.id), errand.title, event_to_json(event)
        )
        self._events.publish(errand.root_lane, agent_event)

    async def _drain(
        self, task: TurnRequest, claim: TurnClaim, preview: StreamingPreview | None
    ) -> TurnOutcome:
        lane = claim.messages[-1].session_key
        ending = TurnOutcome(is_owner=task.environment.owner, channel=claim.messages[-1].channel)
        with self._events.turn(lane, claim.session):
            for opening in opening_events(claim):
                self._events.publish(lane, opening)
            async with aclosing(self._agent.turn(task)) as stream:
                async for event in stream:
                    ending.observe(event)
                    if preview is not None:
                        preview.feed(event)
                    if not claim.choices.hides(event):
                        self._events.publish(lane, ending.public_form(event))
        return ending

    async def _commit(
        self,
        claim: TurnClaim,
        window: SessionWindow,
        journal: StoreTurnJournal,
        ending: TurnOutcome,
        exposure: TaintState,
        errands: Sequence[SubagentTask],
    ) -> bool:
        """History, outbox and turn in one transaction, and what tells of an errand; then what
        waits for it is woken. True when messages wait in the lane."""
        assert ending.result is not None, "a turn ends with Done"
        new = ending.result.messages[journal.stored_messages :]
        rows = [*new, *outcome.closing_messages(ending)]
        dropped = outcome.whole_rounds(ending.dropped_messages, window.messages)
        answer = outcome.answer(ending, lambda part: defuse_answer(part, exposure))
        is_told = not errands and not self._jobs.is_silent(claim, ending)
        letter = replace(
            self._letter(claim, self._jobs.clean(claim, answer)),
            taint=exposure.taint,
            is_read=True,
            shown=ending.preview_parts,
        )
        letters = [letter] if is_told else []
        turn_result = FinishedTurn(rows, letters, window.number(dropped - 1) if dropped else 0)

        lane = claim.messages[-1].route.lane
        is_once = lane.startswith(ONCE)
        file_views = self._agent.toolbox.views.take_stored_form(claim.session)
        with self._sender.direct_send(letter if is_told else None) as direct:

            def store(tx: Transaction) -> tuple[bool, list[str], PendingPart | None]:
                now = time.time()
                if is_once:
                    inbox.withdraw_command_reports(tx, lane, "the run is over")
                has_more = turns.finish(tx, claim.turn, claim.session, turn_result, now)
                if file_views is not None:
                    sessions.set_file_views(tx, claim.session, file_views)
                self._jobs.record_end(tx, claim, outcome.failure(ending))
                task_outcome = outcome.outcome(ending, exposure.taint) if errands else None
                lanes = self._subagents.end(tx, errands, task_outcome, now) if task_outcome else []
                part = outbox.take_first(tx, letter.delivery_id) if direct else None
                return has_more, lanes, part

            has_more, lanes, part = await self._database.transact(store)
            if direct:
                direct.part = part
            journal.mark_stored(rows)
            if dropped:
                window.drop(dropped)
            is_left = is_once and await self._background.close_if_abandoned(claim.session, lane)
        self._wake([] if part else letters, lanes)
        if is_told and ending.error is None and ending.result.stopped is None:
            self._on_answer(claim, self._jobs.clean(claim, ending.result.text))
        if errands or is_left:
            await self._agent.toolbox.end(claim.session)
        return has_more

    def _trace(
        self, claim: TurnClaim, before: Sequence[Message], ending: TurnOutcome, spent: UsageTotals
    ) -> str:
        """What stands below the answer of what was done, `before` a restart and after it."""
        level = self._renderer.trace(claim.messages[-1].route)
        if level is None or ending.result is None:
            return ""
        level = claim.choices.get(TRACE) or level
        messages = [*before, *ending.result.messages]
        return trace_of(level, messages, spent, self._agent.toolbox)

    def _wake(self, letters: Sequence[OutgoingReply], lanes: Sequence[str]) -> None:
        for letter in letters:
            self._sender.wake(letter.route.lane)
        for lane in lanes:
            self._subagents.wake(lane)

    def _letter(self, claim: TurnClaim, markdown: str) -> OutgoingReply:
        message = claim.messages[-1]
        return OutgoingReply(
            delivery_id=f"t{claim.turn}",
            route=message.route,
            parts=self._renderer.render(message.route, markdown),
            reply_to=claim.reply_to,
            event_id=message.event_id,
            page_end=t(ENDS_ABOVE),
        )
