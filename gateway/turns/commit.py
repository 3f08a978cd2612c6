"""Final commit of a turn: history, outbox with the trace of tools, and turn in one transaction."""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.agent import Agent
from agent.i18n import mark_for_translation, plural, t
from agent.providers.usage import UsageTotals
from agent.records import frozen
from agent.run.contributors import has_plan
from agent.tools.registry import ToolRegistry
from agent.turn.request import TurnRequest
from agent.types import Message, ToolCall
from gateway.core import keyboard
from gateway.core.keyboard import KeyboardChoice
from gateway.core.link_defusing import defuse_answer
from gateway.core.markdown import close_code_block
from gateway.core.messages import ONCE, Button
from gateway.core.records import Trace
from gateway.core.turn_choice import SKILL_CHOICES, TurnChoice, choices_list, translated
from gateway.delivery.activity_status import call_markdown, code
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.sessions import finished_plan, skill_offer
from gateway.sessions.background_work import BackgroundWork
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.conversations.choices import TRACE
from gateway.store.repositories.delivery import inbox, outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart
from gateway.store.repositories.execution import turns
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.subagent_tasks import SubagentTask, TaskOutcome
from gateway.store.repositories.execution.turns import FinishedTurn
from gateway.store.repositories.execution.windows import SessionWindow
from gateway.turns.agents.subagents import SubagentCoordinator
from gateway.turns.goals import GoalService
from gateway.turns.job_hooks import JobHooks
from gateway.turns.journal import StoreTurnJournal
from gateway.turns.outcome import (
    SCREENS,
    TurnOutcome,
    answer,
    closing_messages,
    ends_with_question,
    failure,
    is_whole_answer,
    task_outcome,
    whole_rounds,
)
from gateway.turns.usage.limits import usage_text

# Replaces a preview that was longer than the answer.
ENDS_ABOVE = mark_for_translation("↑ The answer ends above.")
_MAX_TRACE_STEPS = 25


@frozen
class EndedTurn:
    """A finished turn that is not committed yet.

    `earlier_messages` are the messages that it added before a restart, `plan_choices` the choices
    of the sender if it ends with a plan. With `may_keep_skill`, the sender may keep its procedure.
    """

    claim: TurnClaim
    request: TurnRequest
    window: SessionWindow
    journal: StoreTurnJournal
    subagent_tasks: Sequence[SubagentTask]
    earlier_messages: Sequence[Message]
    plan_choices: tuple[TurnChoice, ...] = ()
    may_keep_skill: bool = False


class TurnCommitter:
    """Committer for turns, which then wakes waiting lanes."""

    def __init__(  # noqa: PLR0913 - collaborators, passed only by the container
        self,
        *,
        database: Store,
        agent: Agent,
        renderer: ReplyRenderer,
        sender: OutboxSender,
        subagents: SubagentCoordinator,
        background: BackgroundWork,
        jobs: JobHooks,
        goals: GoalService,
        skill_offer_after_s: float,
        on_answer: Callable[[TurnClaim, str], None] = lambda claim, text: None,
    ) -> None:
        self._database = database
        self._agent = agent
        self._renderer = renderer
        self._sender = sender
        self._subagents = subagents
        self.background = background
        self._jobs = jobs
        self._goals = goals
        self._skill_offer_after_s = skill_offer_after_s
        self._on_answer = on_answer

    async def commit(self, ended: EndedTurn, outcome: TurnOutcome) -> bool:
        """Store the outcome of the turn. Return whether messages wait in its lane."""
        claim, window, tasks = ended.claim, ended.window, ended.subagent_tasks
        assert outcome.result is not None, "a turn ends with Done"
        # While the turn is open, other processes cannot start one in its session.
        await self.background.pin(claim.session)
        outcome.denied_summary = self._jobs.denied_summary(claim, ended.request.permissions)
        outcome.trace = self._trace(ended, outcome)
        new = outcome.result.messages[ended.journal.stored_messages :]
        rows = [*new, *closing_messages(outcome)]
        dropped = whole_rounds(outcome.dropped_messages, window.messages)
        is_sent = not tasks and not self._jobs.is_silent(claim, outcome)
        choices = await self._choices(ended, outcome) if not tasks and is_sent else ()
        # A person can also carry out an answer without the heading, by `/build`.
        may_be_plan = bool(ended.plan_choices) and is_sent and is_whole_answer(outcome)
        reply = self._final_reply(ended, outcome, choices)
        replies = [reply] if is_sent else []
        turn_result = FinishedTurn(rows, replies, window.number(dropped - 1) if dropped else 0)

        ending = None
        if tasks:
            ending = task_outcome(outcome, ended.request.exposure.taint)
            ending = await self._subagents.with_worktree(tasks[0], ending)
        lane = claim.messages[-1].route.lane
        is_once = lane.startswith(ONCE)
        file_views = self._agent.toolbox.views.take_stored_form(claim.session)
        with self._sender.direct_send(reply if is_sent else None) as direct:

            def store(tx: Transaction) -> tuple[bool, list[str], PendingPart | None]:
                now = time.time()
                if is_once:
                    inbox.withdraw_command_reports(tx, lane, "the run is over")
                has_more = turns.finish(tx, claim.turn, claim.session, turn_result, now)
                if file_views is not None:
                    sessions.set_file_views(tx, claim.session, file_views)
                if may_be_plan or choices:
                    _store_offer(tx, claim, choices)
                self._jobs.record_end(tx, claim, failure(outcome))
                check_lane = None if tasks else self._goals.end_turn(tx, claim, outcome, now)
                if check_lane is not None:
                    has_more = True
                    outbox.set_outcome(tx, reply.delivery_id, check_lane, "active")
                lanes: list[str] = []
                if ending is not None:
                    lanes = self._subagents.end(tx, tasks, ending, now)
                part = outbox.take_first(tx, reply.delivery_id) if direct else None
                return has_more, lanes, part

            has_more, lanes, part = await self._database.transact(store)
            if direct:
                direct.part = part
            ended.journal.mark_stored(rows)
            if dropped:
                window.drop(dropped)
            is_left = is_once and await self.background.close_if_abandoned(claim.session, lane)
        self._wake([] if part else replies, lanes)
        if is_sent and outcome.error is None and outcome.result.stopped is None:
            self._on_answer(claim, self._jobs.clean(claim, outcome.result.text))
        if tasks or is_left:
            await self._agent.toolbox.end(claim.session)
        return has_more

    async def give_up(
        self,
        claim: TurnClaim,
        tasks: Sequence[SubagentTask],
        sentence: str,
        *,
        cause: turns.EndCause = "given_up",
    ) -> None:
        """End a turn that cannot run; notify the chat or the caller of the sub-agent."""
        replies = [] if tasks else [self._reply(claim, sentence)]
        ending = TaskOutcome("failed", sentence, claim.taint)
        if tasks:
            ending = await self._subagents.with_worktree(tasks[0], ending)

        def store(tx: Transaction) -> list[str]:
            now = time.time()
            turns.give_up(tx, claim.turn, replies, sentence, now, cause=cause)
            self._jobs.record_end(tx, claim, sentence)
            self._goals.fail_turn(tx, claim, sentence, now)
            return self._subagents.end(tx, tasks, ending, now)

        self._wake(replies, await self._database.transact(store))
        if tasks:
            await self.background.end(claim.session)

    async def _choices(self, ended: EndedTurn, outcome: TurnOutcome) -> tuple[TurnChoice, ...]:
        """Return the choices that the turn offers: after a plan, or to keep its procedure."""
        if not is_whole_answer(outcome):
            return ()
        if ended.plan_choices:
            assert outcome.result is not None, "a whole answer"
            return ended.plan_choices if has_plan(outcome.result.text) else ()
        if ends_with_question(outcome):
            return ()
        is_clean = "untrusted" not in ended.request.exposure.taint and not outcome.denied_summary
        if not (ended.may_keep_skill and is_clean) or self._agent.skills is None:
            return ()
        claim = ended.claim
        after_s = self._skill_offer_after_s
        is_due = await self._database.transact(
            skill_offer.is_due, claim.session, claim.turn, time.time(), after_s
        )
        return SKILL_CHOICES if is_due else ()

    def _final_reply(
        self, ended: EndedTurn, outcome: TurnOutcome, choices: Sequence[TurnChoice]
    ) -> OutgoingReply:
        exposure, claim = ended.request.exposure, ended.claim
        text = answer(outcome, lambda part: defuse_answer(part, exposure))
        text = self._jobs.clean(claim, text)
        buttons: tuple[Button, ...] = ()
        if choices and claim.messages[-1].channel not in SCREENS:
            choices = translated(choices)
            buttons = self._buttons(claim, choices)
            text = text if buttons else f"{close_code_block(text)}\n\n{choices_list(choices)}"
        reply = self._reply(claim, text)
        parts = list(reply.parts)
        if buttons:
            parts[-1] = replace(parts[-1], buttons=buttons)
        return replace(
            reply,
            parts=parts,
            taint=exposure.taint,
            is_read=True,
            preview_parts=outcome.preview_parts,
        )

    def _reply(self, claim: TurnClaim, markdown: str) -> OutgoingReply:
        message = claim.messages[-1]
        return OutgoingReply(
            delivery_id=f"t{claim.turn}",
            route=message.route,
            parts=self._renderer.render(message.route, markdown),
            reply_to=claim.reply_to,
            event_id=message.event_id,
            page_end=t(ENDS_ABOVE),
        )

    def _buttons(self, claim: TurnClaim, choices: Sequence[TurnChoice]) -> tuple[Button, ...]:
        """Return buttons for the choices after a turn; empty where the channel has none."""
        channel = self._renderer.can_ask(claim.messages[-1].route)
        if channel is None:
            return ()
        keys = (
            KeyboardChoice(
                self._renderer.clean(choice.label), choice.command, choice.argument, of_session=True
            )
            for choice in choices
        )
        return keyboard.buttons(keys, claim.session, channel.button_limits)

    def _trace(self, ended: EndedTurn, outcome: TurnOutcome) -> str:
        """Return the trace of the whole turn below the answer, or ''."""
        claim = ended.claim
        level = self._renderer.trace(claim.messages[-1].route)
        if level is None or outcome.result is None:
            return ""
        messages = [*ended.earlier_messages, *outcome.result.messages]
        level = claim.choices.get(TRACE) or level
        return trace_of(level, messages, outcome.spent, self._agent.toolbox)

    def _wake(self, replies: Sequence[OutgoingReply], lanes: Sequence[str]) -> None:
        for reply in replies:
            self._sender.wake(reply.route.lane)
        for lane in lanes:
            self._subagents.wake(lane)


def _store_offer(tx: Transaction, claim: TurnClaim, choices: Sequence[TurnChoice]) -> None:
    if choices == SKILL_CHOICES:
        skill_offer.offer(tx, claim.session)
    # A person may have left plan mode while the turn ran.
    elif sessions.chosen_mode(tx, claim.session) == claim.mode:
        finished_plan.offer(tx, claim.session, choices)


def trace_of(
    level: Trace, messages: Sequence[Message], spent: UsageTotals, toolbox: ToolRegistry
) -> str:
    """Return the trace as markdown, or ''. `messages` are the messages of the whole turn."""
    calls = {call.id: call for message in messages for call in message.tool_calls}
    failed = {message.tool_call_id for message in messages if message.is_error}
    if level == "off" or not (calls or level == "full"):
        return ""
    steps = [
        f"- {_step(call, toolbox)}{' ✗' if call.id in failed else ''}" for call in calls.values()
    ]
    if len(steps) > _MAX_TRACE_STEPS:
        steps[_MAX_TRACE_STEPS:] = [t("- and {n} more", n=len(steps) - _MAX_TRACE_STEPS)]
    used = Counter(call.name for call in calls.values())
    parts = [", ".join(f"{code(name)} ×{n}" if n > 1 else code(name) for name, n in used.items())]
    changed = {
        os.path.normpath(path)
        for call in calls.values()
        if call.id not in failed and toolbox.traits(call.name).names_changed_files
        for path in toolbox.paths(call)
    }
    if changed:
        parts.append(plural(len(changed), "{n} file changed", "{n} files changed"))
    parts.append(usage_text(spent))
    summary = f"🔧 {' · '.join(filter(None, parts))}"
    return "\n".join([summary, *(steps if level == "full" else [])])


def _step(call: ToolCall, toolbox: ToolRegistry) -> str:
    traits = toolbox.traits(call.name)
    return call_markdown(call.name, call.arguments or {}, traits.kind, traits.label)
