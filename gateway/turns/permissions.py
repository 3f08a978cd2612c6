"""What a message may do: permissions, memory and folder of the turn that answers it."""

from collections.abc import Callable, Sequence
from dataclasses import field
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING

from agent.approvals import ServerQuestion
from agent.elicitation import Elicitation, ElicitationAnswer
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.audit import AuditSink
from agent.security.policy.base import (
    ALLOWED_BY_PREFIX,
    Approver,
    Decision,
    PermissionMode,
    ToolRequest,
    tightest,
    tightest_of,
)
from agent.security.policy.full_access import FullAccessPolicy
from agent.tools.base import CallContext, ElicitInCall
from agent.tools.runner import Permissions
from agent.turn.context_usage import PromptAudience
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.approvals import ApprovalContext
from gateway.access.control import AccessControl
from gateway.access.permission_modes import mode_of
from gateway.access.roles import RoleRegistry
from gateway.core.approval import ApprovalPrompt
from gateway.core.messages import CONSOLE, InboundMessage, MessageOptions

if TYPE_CHECKING:
    from agent.security.policy.engine import PrincipalContext


@frozen
class TurnPermissions:
    """The console is the owner at the machine; all other channels are remote. Approvals are asked
    of the owner, wherever that is.

    `confined` says whether a working sandbox holds commands. `full_access` is this process's token:
    what the terminal sends with it runs without rules, everything else asks for what it does.
    `default_agent` answers where neither a conversation nor a chat has another.
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
        """What the turn that answers these messages may do; `mode` is its conversation's.

        Who joins in while it runs counts from then on: `messages` may grow.
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
        )

    def _approver(
        self, messages: Sequence[InboundMessage], session: str, turn: int
    ) -> Approver | None:
        """Asks the owner; not for an unattended console or a job."""
        last = messages[-1]
        if last.job is not None:
            from gateway.turns.unattended import UnattendedApprover

            return UnattendedApprover()
        if last.channel == CONSOLE and last.options.unattended:
            return None
        return self.approvals.approver(self._asking(messages, session, turn))

    def elicit(
        self, messages: Sequence[InboundMessage], session: str, turn: int
    ) -> ElicitInCall | None:
        """Asks the owner what a server wants to know; None where nobody is there."""
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
        """For whom the owner is asked, which may change while the turn runs."""
        last = messages[-1]

        def asking() -> ApprovalContext:
            # A turn that also answers another person is asked for as theirs.
            others = (one for one in _speakers(messages) if not self.access.is_owner(one))
            return ApprovalContext(
                turn, next(others, messages[-1]), session, self.working_dir(last)
            )

        return asking

    def mode(self, message: InboundMessage, session_mode: str | None) -> PermissionMode:
        """The mode that holds for a message; `session_mode` is that of its conversation."""
        first = self.policies.default_mode(message.channel)
        mode = mode_of(message, session_mode, first, owner=self.access.is_owner(message))
        # No sandbox holds commands in this process: what was not given that is asked for.
        return mode if self.full_access is None else tightest(mode, "ask")

    def has_full_access(self, message: InboundMessage) -> bool:
        """Whether this process's own terminal sent it, or it is part of the work on such a one."""
        token = message.options.full_access
        if self.full_access is None or token is None:
            return False
        is_own = message.channel == CONSOLE and message.job is None
        return is_own and compare_digest(token.encode(), self.full_access.encode())

    def principal_context(
        self, message: InboundMessage, mode: str | None
    ) -> "PrincipalContext | None":
        """The sender's current role; None when the settings give them no known one."""
        # The engine is not needed before the first tool call.
        from agent.security.policy.engine import PrincipalContext

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
        """Whether what is said here is untrusted."""
        return self.access.is_untrusted(message)

    def audience(self, message: InboundMessage) -> PromptAudience:
        """For whom the prompt is made, and where."""
        chat = self.access.chat_settings.of(message.route)
        return PromptAudience(
            memory=self.memory(message),
            root=self.working_dir(message),
            owner=self.access.is_private_owner(message),
            model=chat.model,
            persona=chat.persona,
            agent=chat.agent or self.default_agent,
        )

    def memory(self, message: InboundMessage) -> Path:
        return self.access.memory(self.workspace, message)

    def inbox(self, message: InboundMessage) -> Path:
        return self.access.inbox(self.workspace, message)

    def working_dir(self, message: InboundMessage) -> Path:
        """Where relative paths start."""
        return self.access.folder(self.workspace, message)


@frozen
class CombinedPolicy:
    """Judges a call by each of those whose messages a turn answers: the tightest verdict counts.

    The roles are looked up at each call, so that a changed policy file holds at once, and so does
    the person who has just joined in: `messages` may grow.
    """

    rules: TurnPermissions
    messages: Sequence[InboundMessage]
    mode: str | None

    def decide(self, request: ToolRequest) -> Decision:
        from agent.security.policy.engine import RolePolicy

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
        # Of several reasons to ask, the one counts that no answer for any arguments is about.
        decisions.sort(key=lambda one: one.rule in ALLOWED_BY_PREFIX)
        return tightest_of(decisions)

    def hosts(self, tool: str, governed_by: str | None = None) -> tuple[str, ...] | None:
        """The hosts that the roles of all who speak let a tool reach; None sets no limit."""
        from agent.security.network.hosts import shared_hosts
        from agent.security.policy.engine import RolePolicy

        hosts: tuple[str, ...] | None = None
        for message in self._ruled():
            standing = self.rules.principal_context(message, self.mode)
            own = () if standing is None else RolePolicy(standing).hosts(tool, governed_by)
            if own is not None:
                hosts = own if hosts is None else shared_hosts(hosts, own)
        return hosts

    def paths(self, tool: str, governed_by: str | None = None) -> tuple[tuple[str, ...], ...]:
        """The scopes of all who speak; a file that a tool shows fits each of them."""
        from agent.security.policy.engine import RolePolicy

        scopes: list[tuple[str, ...]] = []
        for message in self._ruled():
            standing = self.rules.principal_context(message, self.mode)
            scopes += [()] if standing is None else RolePolicy(standing).paths(tool, governed_by)
        return tuple(dict.fromkeys(scopes))

    def may_write(self, tool: str, governed_by: str | None = None) -> bool:
        """Return whether the roles of all who speak let commands of a tool change files."""
        from agent.security.policy.engine import RolePolicy

        standings = (self.rules.principal_context(each, self.mode) for each in self._ruled())
        return all(
            standing is not None and RolePolicy(standing).may_write(tool, governed_by)
            for standing in standings
        )

    def _ruled(self) -> list[InboundMessage]:
        """The messages of all who speak that rules hold for."""
        return [one for one in _speakers(self.messages) if not self.rules.has_full_access(one)]


def _full_access(options: MessageOptions) -> FullAccessPolicy:
    names = options.allowed_tools
    return FullAccessPolicy(
        None if names is None else frozenset(names), frozenset(options.disallowed_tools or ())
    )


def _speakers(messages: Sequence[InboundMessage]) -> list[InboundMessage]:
    return [speaker for message in messages for speaker in message.speakers]
