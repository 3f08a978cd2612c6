"""Permissions, mode, memory, folder and disclosure budget of a turn.

They are based on the messages that it answers.

In the turn of a job, no person can be asked: its approver denies all requests and lists them.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from hmac import compare_digest
from pathlib import Path
from typing import ClassVar

from agent.approvals import ApprovalRequest, ServerQuestion
from agent.errors import KoreError
from agent.i18n import t
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.audit import AuditSink
from agent.security.network.urls import shared_hosts
from agent.security.policy.base import (
    ALLOWED_BY_PREFIX,
    MODES,
    Answered,
    Approver,
    Decision,
    NobodyToAsk,
    PermissionMode,
    ToolRequest,
    is_mode,
    tightest,
    tightest_of,
)
from agent.security.policy.engine import FullAccessPolicy, PrincipalContext, RolePolicy
from agent.security.taint.taint import CHOICE_BITS
from agent.skills.authoring import find_skill_request
from agent.tools.base import CallContext, ElicitInCall
from agent.tools.elicitation import Elicitation, ElicitationAnswer
from agent.tools.runner import Permissions
from agent.turn.context_usage import PromptAudience
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.approvals import ApprovalContext
from gateway.access.control import AccessControl
from gateway.access.roles import RoleRegistry
from gateway.core.approval import ApprovalPrompt, title_of
from gateway.core.messages import CONSOLE, InboundMessage, MessageOptions
from gateway.core.turn_choice import PLAN_CHOICES, TurnChoice
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions


@frozen
class TurnPermissions:
    """Permission rules for turns.

    The console is the owner at the machine; all other channels are remote. Approval requests go to
    the owner's current location.

    `confined` means that a working sandbox confines commands. `full_access` is the token of this
    process: messages that the terminal sends with it run without rules, all others need approval.
    `default_agent` answers unless a conversation or a chat selects another agent.
    """

    access: AccessControl
    approvals: ApprovalCoordinator
    workspace: Path
    policies: RoleRegistry
    confined: bool = False
    audit: AuditSink | None = None
    full_access: str | None = field(default=None, repr=False)
    default_agent: str | None = None

    def permissions(
        self,
        messages: Sequence[InboundMessage],
        session: str,
        mode: str | None = None,
        *,
        turn: int,
    ) -> Permissions:
        """Return the permissions of a turn; `mode` is the mode of its conversation.

        People who join while the turn runs are included: `messages` may grow.
        """
        approver = self._approver(messages, session, turn)

        def role() -> str:
            return "+".join(dict.fromkeys(map(self.access.role, _speakers(messages))))

        return Permissions(
            CombinedPolicy(self, messages, mode),
            approver,
            self.audit,
            role,
            full_access=all(map(self.has_full_access, _speakers(messages))),
            remedy=self._remedy(messages, mode),
        )

    def _approver(
        self, messages: Sequence[InboundMessage], session: str, turn: int
    ) -> Approver | None:
        """Return the approver that asks the owner.

        At an unattended console and in a job, no person is asked.
        """
        last = messages[-1]
        asking = self._asking(messages, session, turn)
        if last.job is not None:
            return UnattendedApprover(self.approvals, asking)
        if last.channel == CONSOLE and last.options.unattended:
            return TrustedRecipients(self.approvals, asking)
        return self.approvals.approver(asking)

    def _remedy(self, messages: Sequence[InboundMessage], mode: str | None) -> str:
        """Return a hint that names the ways to allow calls at an unattended console."""
        last = messages[-1]
        is_alone = last.job is None and last.channel == CONSOLE and last.options.unattended
        return load_prompt("nobody_auto") if is_alone and self.mode(last, mode) != "auto" else ""

    def elicit(
        self, messages: Sequence[InboundMessage], session: str, turn: int
    ) -> ElicitInCall | None:
        """Return the function that asks the owner a server's question; None if unattended."""
        last = messages[-1]
        if last.job is not None or (last.channel == CONSOLE and last.options.unattended):
            return None
        asking = self._asking(messages, session, turn)

        async def elicit(question: Elicitation, call: CallContext) -> ElicitationAnswer:
            from gateway.access.server_questions import ask_person

            async def put(query: ServerQuestion) -> ApprovalPrompt | None:
                return await self.approvals.ask_for_server(asking(), call.call, query)

            return await ask_person(put, question, call.redactor.learn)

        return elicit

    def _asking(
        self, messages: Sequence[InboundMessage], session: str, turn: int
    ) -> Callable[[], ApprovalContext]:
        """Return a function for the current approval context, which may change during the turn."""
        last = messages[-1]

        def asking() -> ApprovalContext:
            # If the turn also answers another person, the request names that person.
            others = (
                speaker for speaker in _speakers(messages) if not self.access.is_owner(speaker)
            )
            return ApprovalContext(
                turn, next(others, messages[-1]), session, self.working_dir(last)
            )

        return asking

    def mode(self, message: InboundMessage, session_mode: str | None) -> PermissionMode:
        """Return the mode for a message; `session_mode` is the mode of its conversation."""
        first = self.policies.default_mode(message.channel)
        mode = mode_of(message, session_mode, first, owner=self.access.is_owner(message))
        # A skill counts as the person's own instruction: its draft is shown first.
        is_draft = _is_attended(message) and find_skill_request(message.content) is not None
        # Without a sandbox in this process, messages without full access need approval.
        is_asked = is_draft or self.full_access is not None
        return tightest(mode, "ask") if is_asked else mode

    def plan_choices(
        self, message: InboundMessage, session_mode: str | None
    ) -> tuple[TurnChoice, ...]:
        """Return the choices for the sender if a turn for this message ends with a plan.

        Empty outside of plan mode, if no person can be asked, and for a person who may not leave
        plan mode.
        """
        current = self.mode(message, session_mode)
        if current != "plan" or not _is_attended(message):
            return ()
        default = self.policies.default_mode(message.channel)
        owner = self.access.is_owner(message)
        choices = tuple(
            choice
            for choice in PLAN_CHOICES
            if choice.mode is not None
            and may_choose(message, choice.mode, current, default, owner=owner)
        )
        return choices if any(choice.mode != current for choice in choices) else ()

    def may_keep_skill(self, messages: Sequence[InboundMessage], session_mode: str | None) -> bool:
        """Return whether a person may keep the procedure of a turn for these messages as a skill.

        This is the owner in a private conversation. A turn that a command began followed a skill.
        """
        return self.mode(messages[-1], session_mode) != "plan" and all(
            _is_attended(message)
            and self.access.is_private_owner(message)
            and not message.content.startswith("/")
            for message in messages
        )

    def has_full_access(self, message: InboundMessage) -> bool:
        """Return whether the message comes from this process's terminal or belongs to its work."""
        token = message.options.full_access
        if self.full_access is None or token is None:
            return False
        is_own = message.channel == CONSOLE and message.job is None
        return is_own and compare_digest(token.encode(), self.full_access.encode())

    def principal_context(
        self, message: InboundMessage, mode: str | None
    ) -> PrincipalContext | None:
        """Return the sender's current role, or None if the settings define no such role."""
        # The engine is not needed before the first tool call.
        role = self.policies.role(self.access.role(message))
        if role is None:
            return None
        local = message.channel == CONSOLE
        options = message.options if local else MessageOptions()
        allowed = options.allowed_tools
        return PrincipalContext(
            role=role,
            mode=self.mode(message, mode),
            trust="local" if local else "remote",
            is_confined=self.confined,
            blocked_commands=self.policies.blocked_commands,
            only_tools=None if allowed is None else frozenset(allowed),
            without_tools=frozenset(options.disallowed_tools or ()),
        )

    def is_untrusted(self, message: InboundMessage) -> bool:
        """Return whether the content of the message is untrusted."""
        return self.access.is_untrusted(message)

    def audience(self, message: InboundMessage) -> PromptAudience:
        """Return the audience and place of the prompt."""
        chat = self.access.chat_settings.of(message.route)
        return PromptAudience(
            memory=self.memory(message),
            root=self.working_dir(message),
            owner=self.access.is_private_owner(message),
            model=chat.model,
            persona=chat.persona,
            agent=chat.agent or self.default_agent,
            start_folder=self.access.start_folder(self.workspace, message),
        )

    def memory(self, message: InboundMessage) -> Path:
        return self.access.memory(self.workspace, message)

    def inbox(self, message: InboundMessage) -> Path:
        return self.access.inbox(self.workspace, message)

    def working_dir(self, message: InboundMessage) -> Path:
        """Return the folder of the work."""
        return self.access.folder(self.workspace, message)


@frozen
class CombinedPolicy:
    """Policy that combines the senders of all messages of a turn: the strictest verdict applies.

    Roles are looked up for each call, so that changes of the policy file and people who have just
    joined take effect at once: `messages` may grow.
    """

    rules: TurnPermissions
    messages: Sequence[InboundMessage]
    mode: str | None

    def decide(self, request: ToolRequest) -> Decision:
        decisions = []
        contexts: list[PrincipalContext] = []
        for message in _speakers(self.messages):
            if self.rules.has_full_access(message):
                decisions.append(_full_access(message.options).decide(request))
                continue
            standing = self.rules.principal_context(message, self.mode)
            if standing is None:
                name = self.rules.access.role(message)
                return Decision(
                    "deny", render_prompt("policy/unknown_role", role=name), "unknown-role"
                )
            if standing not in contexts:
                contexts.append(standing)
                decisions.append(RolePolicy(standing).decide(request))
        # Among several requests for approval, prefer one that cannot be answered for all arguments.
        decisions.sort(key=lambda item: item.rule in ALLOWED_BY_PREFIX)
        return tightest_of(decisions)

    def hosts(self, tool: str, governed_by: str | None = None) -> tuple[str, ...] | None:
        """Return the hosts that the roles of all senders allow for a tool; None means no limit."""
        hosts: tuple[str, ...] | None = None
        for message in self._ruled():
            standing = self.rules.principal_context(message, self.mode)
            own = () if standing is None else RolePolicy(standing).hosts(tool, governed_by)
            if own is not None:
                hosts = own if hosts is None else shared_hosts(hosts, own)
        return hosts

    def paths(self, tool: str, governed_by: str | None = None) -> tuple[tuple[str, ...], ...]:
        """Return the path scopes of all senders; a file of a tool must match each scope."""
        scopes: list[tuple[str, ...]] = []
        for message in self._ruled():
            standing = self.rules.principal_context(message, self.mode)
            scopes += [()] if standing is None else RolePolicy(standing).paths(tool, governed_by)
        return tuple(dict.fromkeys(scopes))

    def may_write(self, tool: str, governed_by: str | None = None) -> bool:
        """Return whether the roles of all senders allow commands of a tool to change files."""
        standings = (self.rules.principal_context(message, self.mode) for message in self._ruled())
        return all(
            standing is not None and RolePolicy(standing).may_write(tool, governed_by)
            for standing in standings
        )

    def _ruled(self) -> list[InboundMessage]:
        """Return the messages of all senders without full access."""
        return [
            speaker
            for speaker in _speakers(self.messages)
            if not self.rules.has_full_access(speaker)
        ]


def _full_access(options: MessageOptions) -> FullAccessPolicy:
    names = options.allowed_tools
    return FullAccessPolicy(
        None if names is None else frozenset(names), frozenset(options.disallowed_tools or ())
    )


def _speakers(messages: Sequence[InboundMessage]) -> list[InboundMessage]:
    return [speaker for message in messages for speaker in message.speakers]


@frozen
class TrustedRecipients:
    """`agent.security.policy.base.Approver` for turns in which no person can be asked.

    The owner's trust in an MCP server still counts; `asking` is as for `TurnApprover`.
    """

    defers_answers: ClassVar[bool] = True

    approvals: ApprovalCoordinator
    asking: Callable[[], ApprovalContext]

    async def ask(self, request: ApprovalRequest) -> Answered:
        """Return an earlier answer about the recipient. Raises `NobodyToAsk`."""
        answer = await self.approvals.trust_in_recipient(self.asking(), request)
        if answer is None:
            raise NobodyToAsk("nobody can be asked here")
        return answer


class UnattendedApprover:
    """Implements `agent.security.policy.base.Approver` for the turn of a job."""

    defers_answers: ClassVar[bool] = True

    def __init__(
        self, approvals: ApprovalCoordinator, asking: Callable[[], ApprovalContext]
    ) -> None:
        self._trusted = TrustedRecipients(approvals, asking)
        self.denied_titles: list[str] = []

    async def ask(self, request: ApprovalRequest) -> Answered:
        """Return an earlier answer about the recipient, or record the request and raise
        `KoreError`."""
        with suppress(NobodyToAsk):
            return await self._trusted.ask(request)
        title = title_of(request).replace("`", "'")
        if title not in self.denied_titles:
            self.denied_titles.append(title)
        raise KoreError(load_prompt("scheduled_no"))


def denied_summary(permissions: Permissions) -> str:
    """Return the sentence about denied actions for the person, or ''."""
    approver = permissions.approver
    if not isinstance(approver, UnattendedApprover) or not approver.denied_titles:
        return ""
    titles = ", ".join(f"`{title}`" for title in approver.denied_titles)
    return t("⏸ Not done, because nobody was available to approve it: {titles}", titles=titles)


def mode_of(
    message: InboundMessage, session_mode: str | None, default: PermissionMode, *, owner: bool
) -> PermissionMode:
    """Return the permission mode for one message.

    `session_mode` is the mode of its conversation, `default` the initial mode of its channel. A
    message that names the first mode of a conversation counts until one is stored. The command line
    of a one-shot run overrides both, but work that Kore continues on its own follows a stricter
    mode that was chosen since. People other than the owner never get more than `default`, even in a
    chat where the owner has chosen more. No mode exceeds the limit of the message.
    """
    mode = _unlimited_mode(message, session_mode, default, owner=owner)
    limit = message.options.mode_limit
    return tightest(mode, limit) if is_mode(limit) else mode


def _unlimited_mode(
    message: InboundMessage, session_mode: str | None, default: PermissionMode, *, owner: bool
) -> PermissionMode:
    if message.job is not None and is_mode(job_mode := message.options.mode):
        return _of_job(message, job_mode, session_mode, default, owner=owner)
    if message.channel == CONSOLE:
        option = message.options.first_mode
        if is_mode(option):
            if not is_mode(session_mode):
                return option
            if message.is_once:
                is_continued = message.is_for_goal or message.is_report
                return tightest(option, session_mode) if is_continued else option
    mode = session_mode if is_mode(session_mode) else default
    return mode if owner else tightest(mode, default)


def _is_attended(message: InboundMessage) -> bool:
    """Return whether a person can answer after a turn for this message."""
    return message.job is None and not message.options.unattended and not message.is_once


def may_choose(
    message: InboundMessage,
    mode: PermissionMode,
    current: PermissionMode,
    default: PermissionMode,
    *,
    owner: bool,
) -> bool:
    """Return whether the sender may choose this mode for the conversation.

    Only the owner may loosen it. Others may tighten it, and undo this in their own chat.
    """
    limit = default if message.private else current
    return owner or MODES.index(mode) <= MODES.index(limit)


def _of_job(
    message: InboundMessage,
    job_mode: PermissionMode,
    session_mode: str | None,
    default: PermissionMode,
    *,
    owner: bool,
) -> PermissionMode:
    """Return the stricter of the mode at the job's creation and the conversation's current mode."""
    if session_mode is None:
        return job_mode if owner else tightest(job_mode, default)
    now = replace(message, kind="message", job=None, options=MessageOptions())
    return tightest(job_mode, mode_of(now, session_mode, default, owner=owner))


@frozen
class StoredDisclosureBudget:
    """Implements `taint.DisclosureBudget` for a session and its sub-agents.

    It survives restarts, and all turns and sub-agents of the session share it.
    """

    database: Store
    session: str

    async def spend(self, bits: float) -> bool:
        return await self.database.transact(sessions.spend_bits, self.session, bits) <= CHOICE_BITS

    def renew(self) -> None:
        """Do nothing: the turn renews the budget in the transaction that takes in a message.

        Each turn reads the messages of the history again; these must not renew it.
        """
