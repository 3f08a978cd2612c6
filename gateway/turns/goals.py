"""Goals of conversations: turns follow until a condition is met, which is judged after each turn.

The commit of a turn stores the check of its goal as a message of the lane. The check calls the
judge; one transaction then ends the check and stores what follows: the next turn, or the end. A
crash therefore repeats at most one call of the judge.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.agent import Agent
from agent.context.goal_judge import GoalJudge, GoalVerdict
from agent.context.goal_progress import GoalProgress, reason_of
from agent.errors import KoreError
from agent.events import Notice
from agent.i18n import mark_for_translation, plural, t
from agent.providers.usage import NUSD_PER_USD, dollars
from agent.records import frozen
from agent.tools.assistant.schedule import ScheduleTool
from agent.types import Message
from gateway.config import Settings
from gateway.core.errors import WITHHELD
from gateway.core.event_hub import EventHub
from gateway.core.markdown import escape_markdown
from gateway.core.messages import CONSOLE, InboundMessage
from gateway.core.token_routes import API
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.store.port import Store, Transaction
from gateway.store.repositories import goals
from gateway.store.repositories.conversations import session_admin, sessions
from gateway.store.repositories.delivery import inbox, outbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution import turns, windows
from gateway.store.repositories.execution.claims import CommandClaim, TurnClaim
from gateway.store.repositories.goals import Goal, PauseReason
from gateway.turns.outcome import TurnOutcome
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import is_said
from gateway.turns.usage.meter import StoreUsageMeter

_REASONS: dict[PauseReason, str] = {
    "person": mark_for_translation("it was paused by hand"),
    "stopped": mark_for_translation("the work was stopped"),
    "question": mark_for_translation("there is a question for you"),
    "failed": mark_for_translation("the turn failed"),
    "check_failed": mark_for_translation("the check failed"),
    "turns": mark_for_translation("the limit of turns is reached"),
    "time": mark_for_translation("the time limit is reached"),
    "cost": mark_for_translation("the cost limit is reached"),
    "limit": mark_for_translation("a spending limit is reached"),
    "plan": mark_for_translation("plan mode allows no changes; leave it with /mode"),
    "left": mark_for_translation("this chat left the conversation"),
    "lost": mark_for_translation("Kore was restarted and dropped its next turn"),
    "others": mark_for_translation("another person wrote in between"),
    "access": mark_for_translation("the person who set it has no access any more"),
    "restored": mark_for_translation("a backup was restored"),
}
# Reasons that are explained by a remark.
_EXPLAINED: frozenset[str] = frozenset({"question", "failed", "check_failed"})
# A message of a person continues a goal that is paused for one of these reasons.
_ANSWERED: frozenset[str] = frozenset({"question"})
_WITHDRAWN = "the goal goes on otherwise"
# Prefixes of the event ids of checks, and of the turns that follow them.
_CHECK, _STEP = "goal-check:", "goal-step:"


@frozen
class RequestedLimits:
    """Limits that a person specifies for a goal; None means the limit in the settings."""

    turns: int | None = None
    seconds: float | None = None
    cost_usd: float | None = None


@dataclass(slots=True, kw_only=True)
class GoalService:
    """Service that continues goals. `is_command` finds messages that no turn answers."""

    database: Store
    agent: Agent
    permissions: TurnPermissions
    renderer: ReplyRenderer
    sender: OutboxSender
    events: EventHub
    usage: StoreUsageMeter
    is_command: Callable[[InboundMessage], bool]
    wake: Callable[[str], None]
    settings: Settings

    def begin(
        self,
        tx: Transaction,
        message: InboundMessage,
        session: str,
        text: str,
        limits: RequestedLimits,
        now: float,
    ) -> Goal:
        """Set a goal, replacing any earlier goal, and queue its first turn.

        `message` is the person's request. Raises `KoreError` if the person is not permitted to set
        one.
        """
        self._check_sender(message)
        if (earlier := goals.find(tx, session)) is not None:
            self.remove_for(tx, earlier, message, now)
        template = message.derive(
            "goal",
            f"goal:{message.event_id}",
            text,
            now,
            options=replace(message.options.lasting, session=session),
            lane=message.lane,
        )
        owner = self.permissions.access.is_owner(message)
        goal = self._limited(template, session, limits, now, is_owner=owner)
        goal = replace(goal, before_nusd=goals.cost_nusd(tx, goal))
        return self._step(tx, goal, template)

    def pause(
        self, tx: Transaction, goal: Goal, reason: PauseReason, remark: str | None = None
    ) -> Goal:
        """Pause a goal and withdraw the message that would continue it.

        Without a `remark`, the last remark remains, unless it explains an earlier pause. A remark
        explains the reason if that is in `_EXPLAINED`; otherwise it describes the missing work.
        """
        goals.withdraw_next(tx, goal, "the goal is paused")
        if remark is None:
            remark = "" if goal.reason in _EXPLAINED else goal.remark
        paused = replace(goal, state="paused", reason=reason, next_event=None, remark=remark)
        self._put(tx, paused)
        return paused

    def pause_for(self, tx: Transaction, goal: Goal, message: InboundMessage, now: float) -> Goal:
        """Pause a goal at the request in `message`."""
        is_active = goal.state == "active"
        goal = self.pause(tx, goal, "person")
        if is_active:
            self._notify_goal_chat_elsewhere(tx, goal, message, now)
        return goal

    def remove_for(self, tx: Transaction, goal: Goal, message: InboundMessage, now: float) -> Goal:
        """Remove a goal at the request in `message`."""
        goals.withdraw_next(tx, goal, "the goal is removed")
        goals.remove(tx, goal.session)
        removed = replace(goal, state="removed", reason="", next_event=None)
        self._publish(tx, removed)
        if goal.state == "active":
            self._notify_goal_chat_elsewhere(tx, removed, message, now)
        return removed

    def resume(self, tx: Transaction, goal: Goal, message: InboundMessage, now: float) -> Goal:
        """Continue a goal with fresh limits, with the rights of the person who set it."""
        goals.withdraw_next(tx, goal, _WITHDRAWN)
        spent = goals.cost_nusd(tx, goal)
        goal = replace(
            _moved(goal, message),
            state="active",
            reason="",
            remark="" if goal.reason in _EXPLAINED else goal.remark,
            turns=0,
            worked_s=0.0,
            before_nusd=goal.before_nusd + spent,
        )
        text = _progress(tx, goal).step_text("goal_resumed", goal.text)
        return self._step(
            tx, goal, _derived(goal, "goal_step", f"goal-resumed:{message.event_id}", text, now)
        )

    def pause_of_lane(
        self, tx: Transaction, lane: str, reason: PauseReason, now: float
    ) -> Goal | None:
        """Pause and return the active goal of the lane's conversation; notify the chat."""
        goal = goals.of_lane(tx, lane)
        if goal is None or goal.state != "active":
            return None
        goal = self.pause(tx, goal, reason)
        self._notify_goal_chat(tx, goal, now)
        return goal

    def pause_lost(self, tx: Transaction, now: float) -> None:
        """Pause goals whose next turn was dropped, because their terminal seemed to be gone or a
        row was changed. Their chats are notified, because the terminal may only have lost its
        connection.
        """
        for goal in goals.without_work(tx):
            self._notify_goal_chat(tx, self.pause(tx, goal, "lost"), now)

    def end_turn(
        self, tx: Transaction, claim: TurnClaim, outcome: TurnOutcome, now: float
    ) -> str | None:
        """Record the end of a turn in its final transaction.

        Return the lane in which a check of the goal now waits, if any.
        """
        goal = goals.find(tx, claim.session)
        if goal is None:
            return None
        if _is_of_job(claim):
            return self._end_job(tx, goal, claim.turn, now)
        is_answered = goal.state == "paused" and goal.reason in _ANSWERED
        if is_answered and any(self._is_answer(goal, message) for message in claim.messages):
            goal = replace(_moved(goal, claim.messages[-1]), state="active", reason="", remark="")
        if goal.state != "active":
            return None
        # A goal may be set during a turn for an earlier one.
        if any(
            message.is_for_goal and message.received_at >= goal.created_at
            for message in claim.messages
        ):
            worked_s = goals.working_s(tx, claim.turn, now)
            goal = replace(goal, turns=goal.turns + 1, worked_s=goal.worked_s + worked_s)
        if (ending := _pause_of(outcome)) is not None:
            reason, remark = ending
            goal = self.pause(tx, goal, reason, remark)
            self._notify_goal_chat(tx, goal, now)
            return None
        if any(
            is_said(message) and not self._is_answer(goal, message) for message in claim.messages
        ):
            # The next turn would follow their words with the rights of the person who set the goal.
            self._notify_goal_chat(tx, self.pause(tx, goal, "others"), now)
            return None
        if self._is_first_turn_waiting(tx, goal):
            self._put(tx, goal)
            return None
        goals.withdraw_next(tx, goal, _WITHDRAWN)
        if self._is_turn_waiting(tx, goal):
            self._put(tx, replace(goal, next_event=None))
            return None
        self._queue_check(tx, goal, claim.turn, now)
        return goal.lane

    def fail_turn(self, tx: Transaction, claim: TurnClaim, sentence: str, now: float) -> None:
        """Pause the goal of a turn that was given up, in the transaction that ends it."""
        goal = goals.find(tx, claim.session)
        if goal is None or goal.state != "active":
            return
        if _is_of_job(claim):
            self._end_job(tx, goal, claim.turn, now)
        else:
            self._notify_goal_chat(tx, self.pause(tx, goal, "failed", sentence), now)

    async def check(self, claim: CommandClaim) -> None:
        """Judge a goal, and store the next step together with the end of the check."""
        work = await self.database.transact(self._begin_check, claim, time.time())
        if work is None:
            return
        goal, turn, messages = work
        payer = TurnClaim(turn, claim.seq, goal.session, [claim.message], resumed=True)
        judge = GoalJudge(self.agent.models, self.agent.redactor)
        verdict: GoalVerdict | KoreError
        try:
            async with self.usage.meter(payer) as meter:
                verdict = await judge.judge(goal.text, messages, meter)
        except KoreError as exc:
            verdict = exc
        await self.database.transact(self._conclude, claim, verdict, time.time())

    async def give_up_check(self, claim: CommandClaim, sentence: str) -> None:
        """End a check that cannot run."""
        await self.database.transact(self._conclude, claim, KoreError(sentence), time.time())

    def describe(self, tx: Transaction, goal: Goal) -> str:
        """Return the goal, its state and its usage as markdown."""
        if goal.state == "removed":
            return self._state_text(goal)
        lines = [f"🎯 {escape_markdown(goal.text)}", self._state_text(goal)]
        used = self._used(tx, goal)
        lines.append(
            t(
                "Turns: {n} of {most}; {used} used.",
                n=goal.turns,
                most=goal.max_turns,
                used=used,
            )
        )
        return "\n".join(lines)

    def _end_job(self, tx: Transaction, goal: Goal, turn: int, now: float) -> str | None:
        """Record the end of a job's turn in the goal's conversation; return the lane of a check.

        The job neither pauses the goal nor counts towards it, but a check may have waited for its
        end.
        """
        if goal.state != "active" or goal.next_event is not None:
            return None
        self._queue_check(tx, goal, turn, now)
        return goal.lane

    def _queue_check(self, tx: Transaction, goal: Goal, turn: int, now: float) -> None:
        self._queue(tx, goal, _derived(goal, "goal_check", f"{_CHECK}{turn}", "", now))

    def _begin_check(
        self, tx: Transaction, claim: CommandClaim, now: float
    ) -> tuple[Goal, int, Sequence[Message]] | None:
        """Return the goal to judge, its last turn and the messages; None if the check is over."""
        goal = self._checked_goal(tx, claim)
        if goal is None:
            self._finish(tx, claim, now)
            return None
        is_here = sessions.bound_session(tx, goal.lane) == goal.session
        turn = turns.last_of(tx, goal.session)
        if not is_here or session_admin.status_of(tx, goal.session) != "open" or turn is None:
            self._notify_goal_chat(tx, self.pause(tx, goal, "left"), now)
        elif not self.permissions.access.is_allowed(goal.message):
            self._notify_goal_chat(tx, self.pause(tx, goal, "access"), now)
        elif self._is_turn_waiting(tx, goal) or turns.is_live(tx, goal.session):
            # The end of that turn stores another check.
            self._put(tx, replace(goal, next_event=None))
        else:
            return goal, turn, windows.load(tx, goal.session).messages
        self._finish(tx, claim, now)
        return None

    def _conclude(
        self, tx: Transaction, claim: CommandClaim, verdict: GoalVerdict | KoreError, now: float
    ) -> None:
        """End a check: the goal is met or paused, or its next turn is queued."""
        goal = self._checked_goal(tx, claim)
        self._finish(tx, claim, now)
        if goal is None:
            return
        goal = replace(goal, next_event=None)
        if isinstance(verdict, KoreError):
            is_owner = self.permissions.access.is_private_owner(goal.message)
            sentence = str(verdict) if is_owner else t(WITHHELD)
            self._notify_goal_chat(tx, self.pause(tx, goal, "check_failed", sentence), now)
        elif verdict.is_met:
            goal = replace(goal, state="met", reason="", remark=verdict.evidence)
            self._put(tx, goal)
            self._notify_goal_chat(tx, goal, now)
        elif (reason := self._obstacle(tx, goal, verdict)) is not None:
            self._notify_goal_chat(tx, self.pause(tx, goal, reason, verdict.missing), now)
        else:
            goal = replace(goal, remark=verdict.missing)
            text = _progress(tx, goal).step_text("goal_step", goal.text, missing=verdict.missing)
            event_id = claim.message.event_id.replace(_CHECK, _STEP)
            self._step(tx, goal, _derived(goal, "goal_step", event_id, text, now))
            self._announce_step(tx, goal)

    def _checked_goal(self, tx: Transaction, claim: CommandClaim) -> Goal | None:
        """Return the active goal that this check is for; None if it is withdrawn or replaced."""
        session = claim.message.options.session
        goal = goals.find(tx, session) if session else None
        if goal is None or goal.state != "active":
            return None
        is_current = goal.next_event == claim.message.event_id
        return goal if is_current and inbox.is_unanswered(tx, claim.seq) else None

    def _is_answer(self, goal: Goal, message: InboundMessage) -> bool:
        """Return whether the message comes from the owner or from the person who set the goal.

        A message with a limited mode comes from a program with a token that may only chat. The next
        turn would follow its words in the mode of the goal.
        """
        is_theirs = message.principal == goal.principal or self.permissions.access.is_owner(message)
        is_whole = message.options.mode_limit in (None, goal.message.options.mode_limit)
        return is_theirs and is_whole and is_said(message)

    def _finish(self, tx: Transaction, claim: CommandClaim, now: float) -> None:
        if inbox.is_unanswered(tx, claim.seq):
            turns.finish_command(tx, claim.seq, None, now)

    def _obstacle(self, tx: Transaction, goal: Goal, verdict: GoalVerdict) -> PauseReason | None:
        """Return the reason not to begin another turn; None to continue."""
        mode = self.permissions.mode(goal.message, sessions.chosen_mode(tx, goal.session))
        if verdict.asks:
            return "question"
        if mode == "plan":
            return "plan"
        return _progress(tx, goal).limit

    def _step(self, tx: Transaction, goal: Goal, step: InboundMessage) -> Goal:
        """Queue the next turn for a goal, with the rest of its budget; return the goal."""
        options = step.options
        # Without prices, the limit cannot apply, and each turn would warn about this.
        if goal.max_nusd is not None and goals.has_price(tx, goal):
            left_usd = max(0, goal.max_nusd - goals.cost_nusd(tx, goal)) / NUSD_PER_USD
            options = replace(options, max_cost_usd=_least(options.max_cost_usd, left_usd))
        return self._queue(tx, goal, replace(step, options=options))

    def _queue(self, tx: Transaction, goal: Goal, message: InboundMessage) -> Goal:
        """Store a message that continues a goal, and the goal; return it."""
        batch = InboxBatch(message.channel, message.account, message.received_at)
        inbox.accept(tx, batch, [InboxEntry(message)])
        goal = replace(goal, next_event=message.event_id)
        self._put(tx, goal)
        tx.after_commit(lambda: self.wake(goal.lane))
        return goal

    def _put(self, tx: Transaction, goal: Goal) -> None:
        goals.put(tx, goal)
        self._publish(tx, goal)

    def _publish(self, tx: Transaction, goal: Goal) -> None:
        tx.after_commit(lambda: self.events.publish(goal.lane, goal.event, goal.session))

    def _announce_step(self, tx: Transaction, goal: Goal) -> None:
        """Show on screens why the next turn begins; chats do not show this."""
        text = t(
            "Goal not met yet: {missing} (turn {n} of {most})",
            missing=goal.remark,
            n=goal.turns + 1,
            most=goal.max_turns,
        )
        notice = Notice("info", text)
        tx.after_commit(lambda: self.events.publish(goal.lane, notice, goal.session))

    def _notify_goal_chat_elsewhere(
        self, tx: Transaction, goal: Goal, message: InboundMessage, now: float
    ) -> None:
        """Send the state of a goal to its chat, unless `message` comes from there."""
        if message.session_key != goal.lane:
            self._notify_goal_chat(tx, goal, now)

    def _notify_goal_chat(self, tx: Transaction, goal: Goal, now: float) -> None:
        """Send the state of a goal to its chat, where people and programs wait for its end."""
        text = f"🎯 {self._state_text(goal)}"
        route = goal.message.route
        parts = self.renderer.render(route, text)
        # The chat may have left the conversation, and the judge's remark quotes that conversation.
        taint = sessions.taint_of(tx, goal.session)
        name = f"{goals.NOTICE}{goal.principal}:{goal.session}:{now!r}"
        notice = OutgoingReply(name, route, parts, "notice", taint=taint, outcome=goal.outcome)
        outbox.put(tx, None, [notice], now)
        tx.after_commit(lambda: self.sender.wake(route.lane))

    def _state_text(self, goal: Goal) -> str:
        remark = escape_markdown(goal.remark)
        if goal.state == "removed":
            return t("The goal is removed.")
        if goal.state == "met":
            return t("The goal is met: {evidence}", evidence=remark or t("no evidence was named"))
        if goal.state == "active":
            missing = t("Missing at the last check: {missing}", missing=remark)
            return f"{t('At work.')} {missing}" if remark else t("At work.")
        why = t(_REASONS[goal.reason]) if goal.reason else ""
        is_explained = bool(remark) and goal.reason in _EXPLAINED
        text = t("The goal is paused: {why}.", why=f"{why} ({remark})" if is_explained else why)
        if remark and not is_explained:
            text += " " + t("Missing at the last check: {missing}", missing=remark)
        hint = (
            t("Your answer continues it.")
            if goal.reason in _ANSWERED
            else t("`/goal resume` continues it.")
        )
        return f"{text}\n{hint}"

    def _used(self, tx: Transaction, goal: Goal) -> str:
        minutes = round(goal.max_s / 60)
        time_text = plural(
            minutes, "{used} of {n} minute", "{used} of {n} minutes", used=int(goal.worked_s // 60)
        )
        has_price = goals.has_price(tx, goal)
        cost = dollars(goals.cost_nusd(tx, goal)) if has_price else t("an unknown cost")
        if goal.max_nusd is None or not has_price:
            return t("{time} and {cost}", time=time_text, cost=cost)
        most = dollars(goal.max_nusd)
        return t("{time} and {cost} of {most}", time=time_text, cost=cost, most=most)

    def _is_first_turn_waiting(self, tx: Transaction, goal: Goal) -> bool:
        """Return whether the first turn since the goal was set or resumed is waiting.

        If a person's message was answered in between, a check and its turn are out of date.
        """
        if goal.next_event is None or goal.next_event.startswith((_CHECK, _STEP)):
            return False
        return inbox.is_waiting(tx, goal.lane, goal.next_event)

    def _is_turn_waiting(self, tx: Transaction, goal: Goal) -> bool:
        """Return whether a message waits that begins a turn in the conversation of the goal."""
        for message in inbox.waiting_messages(tx, goal.lane):
            session = inbox.session_of_message(message) or goal.session
            if session == goal.session and not self.is_command(message):
                return True
        return False

    def _limited(
        self,
        template: InboundMessage,
        session: str,
        limits: RequestedLimits,
        now: float,
        *,
        is_owner: bool,
    ) -> Goal:
        """Return a goal with its limits. Only the owner may exceed the limits in the settings."""
        settings = self.settings
        most_turns, most_usd = settings.goals.max_turns, settings.goals.max_cost_usd
        most_s = settings.goals.max_hours * 3600
        own_turns, own_s = limits.turns or most_turns, limits.seconds or most_s
        own_usd = most_usd if limits.cost_usd is None else limits.cost_usd
        usd = own_usd if is_owner else _least(own_usd, most_usd)
        return Goal(
            session=session,
            message=template,
            max_turns=own_turns if is_owner else min(own_turns, most_turns),
            max_s=own_s if is_owner else min(own_s, most_s),
            max_nusd=None if usd is None else round(usd * NUSD_PER_USD),
            before_nusd=0,
            created_at=now,
        )

    def _check_sender(self, message: InboundMessage) -> None:
        """Raise `KoreError` unless the sender may start unattended work."""
        if message.channel == API:
            raise KoreError(t("nothing can be sent here later: this conversation is over the API"))
        role = self.permissions.policies.role(self.permissions.access.role(message))
        rule = role.rule(ScheduleTool.name) if role is not None else None
        if rule is None or not rule.allow:
            raise KoreError(t("your role cannot set goals"))


def _pause_of(outcome: TurnOutcome) -> tuple[PauseReason, str | None] | None:
    """Return the reason why a turn with this outcome pauses its goal, with a remark; None to
    continue.
    """
    result, error = outcome.result, outcome.error
    assert result is not None, "a turn ends with Done"
    reason = reason_of(result)
    if error is not None and reason not in ("stopped", "limit"):
        return "failed", error.message if outcome.is_owner else t(WITHHELD)
    if reason is None:
        return None
    remarks = {"failed": "", "question": result.signal_reason or ""}
    return reason, remarks.get(reason)


def _derived(
    goal: Goal, kind: Literal["goal_step", "goal_check"], event_id: str, text: str, now: float
) -> InboundMessage:
    """Return a message that Kore writes for a goal, on behalf of the person who set it."""
    template = goal.message
    return template.derive(kind, event_id, text, now, options=template.options, lane=template.lane)


def _progress(tx: Transaction, goal: Goal) -> GoalProgress:
    """Return the goal's usage; without prices, its cost limit cannot apply."""
    return GoalProgress(
        turns=goal.turns,
        max_turns=goal.max_turns,
        worked_s=goal.worked_s,
        max_s=goal.max_s,
        cost_nusd=goals.cost_nusd(tx, goal),
        max_nusd=goal.max_nusd if goals.has_price(tx, goal) else None,
    )


def _moved(goal: Goal, message: InboundMessage) -> Goal:
    """Return the goal, moved to the terminal in which the person continues it.

    The terminal in which it was set may be gone. Goals of chats stay in their chat.
    """
    is_terminal = message.channel == goal.message.channel == CONSOLE
    if goal.state == "active" or not is_terminal or message.principal != goal.principal:
        return goal
    own = goal.message
    options = replace(message.options.lasting, session=goal.session)
    moved = message.derive(
        own.kind, own.event_id, own.content, own.received_at, options=options, lane=message.lane
    )
    return replace(goal, message=moved)


def _is_of_job(claim: TurnClaim) -> bool:
    return claim.messages[-1].kind == "job"


def _least(first: float | None, second: float | None) -> float | None:
    return min((value for value in (first, second) if value is not None), default=None)
