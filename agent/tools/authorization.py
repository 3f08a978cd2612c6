"""Authorization of tool calls: policy, session taint and approval by a person."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from agent.approvals import ApprovalRequest, FolderAccess
from agent.errors import KoreError, PolicyDenied
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.policy.base import (
    ALLOWED_BY_PREFIX,
    ASK_FOLDER,
    ASKED_IN_EVERY_MODE,
    Answered,
    AnswerPending,
    Approver,
    Decision,
    DefersAnswers,
    NobodyToAsk,
    Policy,
    tightest_of,
)
from agent.security.policy.engine import FULL_ACCESS
from agent.security.redaction import Redactor
from agent.security.taint.taint import TaintState, exfiltration_objection
from agent.text.text_document import DIFF_LIMIT_CHARS, is_compared
from agent.tools.base import (
    CallContext,
    ChoosesToAsk,
    DeclaresTaint,
    DescribesEffects,
    EffectPlan,
    SettlesConsent,
    Tool,
)
from agent.tools.run_context import ToolInterceptor
from agent.tools.waiting_time import open_question

log = logging.getLogger(__name__)

# A diff compares at most 400,000 characters and adds a marker to each line.
_MAX_SHOWN_CHARS = 2 * DIFF_LIMIT_CHARS
_NOTIFICATION_TIMEOUT_S = 1.0


class CallDenied(PolicyDenied):
    """Error for a denied call: the text is for the model, `reason` for the record."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@runtime_checkable
class BindsAnswers(Protocol):
    """Optional ability of a tool that describes effects: bind answers to more than the plan.

    `bind` adds facts to a plan, and a person's answer about the call is bound to them. It is called
    only if a person can be asked.
    """

    async def bind(
        self, plan: EffectPlan, args: Mapping[str, Any], call: CallContext
    ) -> EffectPlan: ...


@frozen
class Consent:
    """Reason why a call may run, for the record.

    `by_person`: a person allowed exactly this call, or its command with any arguments, now or
    earlier.
    """

    reason: str
    by_person: bool = False


@frozen
class Authorizer:
    """Decisions about calls: by the policy and, if it asks, by a person.

    Without an approver no question can be asked; `remedy` then names a setting that would allow
    most calls. `redactor` cleans the text shown to a person.
    """

    policy: Policy
    approver: Approver | None
    exposure: TaintState
    redactor: Redactor
    remedy: str = ""

    async def judge(
        self,
        tool: Tool,
        args: Mapping[str, Any],
        plan: EffectPlan,
        context: CallContext,
        hooks: ToolInterceptor | None = None,
    ) -> Decision:
        """Return "allow" or "ask". Raises `CallDenied`, also if the call cannot be judged."""
        try:
            decision = await self._decision(tool, args, plan, context)
        except Exception as exc:
            log.exception("policy failed for a call of %s", tool.name)
            why = render_prompt("policy/unjudged", why=f"{type(exc).__name__}: {exc}")
            raise CallDenied(f"Not allowed: {why}", f"{why} (unjudged)") from exc
        asks_because = hooks.consent_reason(context.call.id) if hooks is not None else None
        if asks_because is not None and decision.verdict != "deny":
            # The policy's warning comes first: a hook's reason never replaces it.
            reasons = [] if decision.verdict == "allow" else [decision.reason]
            reason = "; ".join([*reasons, asks_because])
            return replace(decision, verdict="ask", reason=reason, rule="hook-ask")
        if decision.verdict == "deny":
            reason = f"{decision.reason} ({decision.rule})"
            raise CallDenied(f"Not allowed: {decision.reason}", reason)
        return decision

    async def settle(
        self,
        decision: Decision,
        tool: Tool,
        args: Mapping[str, Any],
        plan: EffectPlan,
        context: CallContext,
        hooks: ToolInterceptor | None = None,
    ) -> Consent:
        """Ask a person if the decision requires it, and return the reason to run the call.

        Raises `CallDenied`.
        """
        reason = f"{decision.reason} ({decision.rule})"
        if decision.verdict == "allow":
            return Consent(reason)
        if self.approver is None:
            raise self._nobody(decision)
        if _is_too_large(plan, args):
            raise CallDenied(
                load_prompt("too_large_to_ask"), f"{reason}; too large to be shown whole"
            )
        question = ApprovalRequest.about(
            replace(
                plan,
                diff=plan.diff and self.redactor.clean(plan.diff),
                prefixes=plan.prefixes if _may_have_prefix(decision) else (),
            ),
            tool=tool.name,
            arguments=args,
            reason=decision.reason,
            call_id=context.call.id,
            rule=decision.rule,
        )
        try:
            with open_question():
                response = await _ask(self.approver, question, hooks, context)
        except NobodyToAsk as exc:
            raise self._nobody(decision) from exc
        except KoreError as exc:
            raise CallDenied(f"Not allowed: {exc}", f"{reason}; {exc}") from exc
        if not isinstance(response, Answered):
            answer_text = "no" if response == "deny" else response
            response = Answered(response, f"asked, and the answer was {answer_text}")
        if response.scope == "network" and plan.network and response.answer != "deny":
            # The hosts are decided; the command still needs its own decision.
            plan = replace(plan, network=())
            decision = await self.judge(tool, args, plan, context, hooks)
            rest = await self.settle(decision, tool, args, plan, context, hooks)
            return replace(rest, reason=f"{reason}; {response.account}; {rest.reason}")
        if response.answer == "deny":
            raise CallDenied(_refusal(response.words), f"{reason}; {response.account}")
        if plan.folder_access is not None and response.answer != "once":
            context.environment.folders.add(plan.folder_access)
        return Consent(f"{reason}; {response.account}", by_person=True)

    def _nobody(self, decision: Decision) -> CallDenied:
        """Return the denial of a call if no person can be asked, with a remedy."""
        remedy = decision.remedy
        if not remedy and decision.rule not in ASKED_IN_EVERY_MODE:
            remedy = self.remedy
        remedy = remedy or load_prompt("nobody_remedy")
        text = render_prompt("nobody_to_ask", reason=decision.reason, remedy=remedy)
        reason = f"{decision.reason} ({decision.rule})"
        return CallDenied(text, f"{reason}; there was nobody to ask")

    async def _decision(
        self, tool: Tool, args: Mapping[str, Any], plan: EffectPlan, context: CallContext
    ) -> Decision:
        """Return the policy's decision, made stricter by the session's taint."""
        request = plan.request(
            tool,
            args,
            context.workspace,
            self.exposure.taint,
            context.places,
            context.base,
        )
        decision = self.policy.decide(request)
        if decision == FULL_ACCESS:
            return decision
        if plan.folder_access is not None:
            decision = with_folder_question(decision, plan.folder_access)
        is_blind = decision.verdict == "allow" or decision.rule == "ask-unplanned"
        if isinstance(tool, SettlesConsent) and is_blind:
            decision = tool.consent
        if isinstance(tool, ChoosesToAsk) and not tool.asks and decision.verdict == "ask":
            # The program that gave the tool to the agent has decided that it may run.
            return Decision("allow", "a tool of the program's own", "own tool")
        if decision.verdict == "allow" and plan.sends is not None:
            passes = await self.exposure.may_pass(plan.sends, leaves=bool(plan.hosts))
            request = replace(request, quoted=passes)
        objection = exfiltration_objection(request, silent=_is_silent(tool))
        if objection is None or (isinstance(tool, ChoosesToAsk) and not tool.asks):
            return decision
        return replace(tightest_of([decision, objection]), taint_objects=True)


async def _ask(
    approver: Approver,
    question: ApprovalRequest,
    hooks: ToolInterceptor | None,
    context: CallContext,
) -> Any:
    """Return the answer; hooks are notified of the question while the person reads it."""
    if hooks is None:
        return await approver.ask(question)
    if isinstance(approver, DefersAnswers) and approver.defers_answers:
        try:
            return await approver.ask(question)
        except AnswerPending:
            # The turn ends with the question; the hook has its own deadline.
            await _end(_notification(hooks, context, question))
            raise
    note = _notification(hooks, context, question)
    try:
        answer = await approver.ask(question)
        # The answer does not wait for the notification.
        await asyncio.wait({note}, timeout=_NOTIFICATION_TIMEOUT_S)
        return answer
    finally:
        note.cancel()
        await _end(note)


def _notification(
    hooks: ToolInterceptor, context: CallContext, question: ApprovalRequest
) -> "asyncio.Task[None]":
    return asyncio.create_task(hooks.notify(context, question), name="notification")


async def _end(note: "asyncio.Task[None]") -> None:
    """Wait for the end of a notification, and log its failure."""
    await asyncio.wait({note})
    if not note.cancelled() and (failure := note.exception()) is not None:
        log.error("a notification hook failed", exc_info=failure)


def with_folder_question(decision: Decision, access: FolderAccess) -> Decision:
    """Return the question about a folder outside the workspace.

    It includes the reason of any other question, so that a person is asked only once. A refusal
    does not change.
    """
    text = "ask_folder_write" if access.is_writable else "ask_folder_read"
    question = Decision("ask", render_prompt(f"policy/{text}", folder=access.path), ASK_FOLDER)
    if decision.verdict == "ask":
        reason = f"{question.reason}\n{decision.reason}"
        question, decision = replace(question, reason=reason), replace(decision, reason=reason)
    return tightest_of([question, decision])


def _may_have_prefix(decision: Decision) -> bool:
    """Return whether an answer may cover any arguments, which requires that nothing else asks."""
    return decision.rule in ALLOWED_BY_PREFIX and not decision.taint_objects


def _refusal(words: str) -> str:
    """Return the text for the model after a person's denial, with the person's comment."""
    if not words:
        return load_prompt("person_said_no")
    return render_prompt("person_said_why", words=words)


def _is_too_large(plan: EffectPlan, args: Mapping[str, Any]) -> bool:
    """Return whether the call is too large to be shown completely in an approval."""
    if plan.diff is not None and not is_compared(plan.diff):
        return True
    texts = [plan.diff] if plan.diff is not None else map(str, args.values())
    return sum(map(len, [*texts, plan.command or "", plan.sends or ""])) > _MAX_SHOWN_CHARS


def _is_silent(tool: Tool) -> bool:
    """Return whether the tool does not declare what it sends, so that it may send anything
    anywhere.
    """
    if isinstance(tool, DescribesEffects):
        return False
    return not isinstance(tool, DeclaresTaint) or "untrusted" in tool.brings
