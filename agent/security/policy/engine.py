"""Policies for a run: strictest rule of a role, full access, and policies of sub-agents."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from agent.approvals import Answer, ApprovalRequest
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.local_services import split_services
from agent.security.policy.base import (
    BLOCKED_COMMANDS,
    CONFINABLE_COMMANDS,
    READING_TOOL,
    Answered,
    Approver,
    Decision,
    DefersAnswers,
    Deletion,
    LimitsHosts,
    LimitsPaths,
    LimitsWriting,
    PermissionMode,
    Policy,
    ToolRequest,
    Trust,
    is_named,
    tightest_of,
)
from agent.security.policy.call_effects import CallEffects, call_effects
from agent.security.policy.policy_file import built_in_roles
from agent.security.policy.roles import Role, role_objections
from agent.security.shell.ast import Script
from agent.security.shell.classifier import find_blocked_word, has_service_client

log = logging.getLogger(__name__)

FULL_ACCESS = Decision("allow", "full access is on for this run", "full-access")


@frozen
class FullAccessPolicy:
    """Policy that allows every call, except to tools excluded from this run.

    An `Authorizer` adds no taint decision to it.
    """

    only_tools: frozenset[str] | None = None
    without_tools: frozenset[str] = field(default_factory=frozenset)

    def decide(self, request: ToolRequest) -> Decision:
        tool = request.tool
        is_chosen = self.only_tools is None or is_named(tool, self.only_tools)
        if not is_chosen or is_named(tool, self.without_tools):
            return Decision("deny", render_prompt("policy/run_tools", tool=tool), "run-tools")
        return FULL_ACCESS


# Command classes that need no approval in a sandbox, by mode.
_FREE: dict[PermissionMode, frozenset[str]] = {
    "ask": frozenset({"reads"}),
    "accept-edits": frozenset({"reads", "works"}),
}

_ALLOWED = Decision("allow", "within the workspace", "workspace")

_AUTO = Decision("allow", "this mode runs everything that the role allows", "auto")

_CONFINED = Decision("allow", "a harmless command in the sandbox", "confined")


def evaluate_mode(
    mode: PermissionMode, reach: CallEffects, trust: Trust, confined: bool
) -> Decision:
    """Return the decision of the mode on a call that the role allows.

    `plan` changes nothing; `ask` asks before commands and changes of existing files; `accept-edits`
    changes files of the workspace; `auto` runs everything. Changes of instructions for later turns
    need approval in all modes, unless the owner at the terminal has chosen `auto`. So do new files
    that other programs run automatically, if untrusted people may influence the folder. A command
    that cannot be parsed runs without approval only in `auto`, and only in a sandbox.
    """
    if mode == "plan":
        return _plan(reach, confined)
    if reach.changes_instructions and not (mode == "auto" and trust == "local"):
        return _ask("prompt")
    if reach.creates_self_running and not (mode == "auto" and trust == "local"):
        return _ask("self_running")
    if reach.is_command:
        return _command(mode, reach, confined)
    if mode == "auto":
        return _AUTO
    return _files(mode, reach)


def _plan(reach: CallEffects, confined: bool) -> Decision:
    if reach.is_command:
        if reach.kind != "reads" or reach.unclear_reason or reach.writes:
            return Decision("deny", load_prompt("policy/plan_command"), "plan-command")
        return _CONFINED if confined and reach.only_reads else _ask("exec")
    # Files for the person in the conversation are judged by their taint.
    if (reach.request.effect == "read" or reach.request.purpose == "delivery") and not reach.writes:
        return _ALLOWED
    return Decision("deny", load_prompt("policy/plan_change"), "plan-change")


def _command(mode: PermissionMode, reach: CallEffects, confined: bool) -> Decision:
    if reach.unclear_reason and not (mode == "auto" and confined):
        return _ask("unclear")
    if mode == "auto":
        return _AUTO
    if reach.leaves_workspace:
        return _ask("outside")
    kind = "works" if reach.kind == "reads" and not reach.only_reads else reach.kind
    if not confined or kind not in _FREE[mode]:
        if confined and _deletes(reach):
            return _ask("delete")
        return _ask_service_client(reach) or _ask("exec")
    return _ask("change") if reach.writes and mode == "ask" else _CONFINED


def _ask_service_client(reach: CallEffects) -> Decision | None:
    """Name the services whose data a client may change, if the command runs one."""
    services = reach.request.sandbox_scope.lasting_services
    if not services or reach.script is None or not has_service_client(reach.script):
        return None
    reason = render_prompt("policy/ask_service_client", services=", ".join(services))
    return Decision("ask", reason, "ask-service-client")


def _deletes(reach: CallEffects) -> bool:
    if reach.request.deletion is not None:
        return True
    return reach.script is not None and find_blocked_word(reach.script, ("rm", "rmdir")) is not None


def _deletion_reason(deletion: Deletion) -> str:
    """Describe a deletion for a person, one sentence per line."""

    def sentence(kind: str, names: Sequence[str]) -> str:
        return render_prompt(f"policy/ask_delete_{kind}", files=", ".join(names))

    lines = [sentence(f"lost_{cause}", names) for cause, names in deletion.lost]
    if deletion.restorable:
        lines.append(sentence("restorable", deletion.restorable))
    if deletion.is_chosen_later:
        lines.append(load_prompt("policy/ask_delete_chosen"))
    if deletion.possible:
        lines.append(sentence("possible", deletion.possible))
    if deletion.unseen:
        lines.append(sentence("unseen", deletion.unseen))
    return "\n".join(lines) or load_prompt("policy/ask_delete_nothing")


def _files(mode: PermissionMode, reach: CallEffects) -> Decision:
    request = reach.request
    if reach.leaves_workspace:
        return _ask("outside")
    if request.changes and not request.only_adds and mode == "ask":
        return _ask("change")
    if request.effect == "unsafe" and not reach.writes and request.purpose != "delivery":
        return _ask("unplanned")
    return _ALLOWED


def _ask_outside(decisions: list[Decision], why: str) -> Decision:
    """Include the reasons of the other questions, and add the model's words last."""
    reasons = [decision.reason for decision in decisions if decision.verdict == "ask"]
    leaving = render_prompt("policy/ask_outside_sandbox", why=why)
    return Decision("ask", "\n".join([*reasons, leaving]), "ask-outside-sandbox")


def _ask_network(names: tuple[str, ...]) -> Decision:
    """Explain access to these hosts and local services."""
    hosts, services = split_services(names)
    reasons = [load_prompt("policy/ask_network")] if hosts else []
    engines = [service for service in services if service.is_engine]
    for prompt, group in (("ask_local_service", services), ("ask_engine", engines)):
        if group:
            listed = ", ".join(map(str, group))
            reasons.append(render_prompt(f"policy/{prompt}", services=listed))
    return Decision("ask", "\n".join(reasons), "ask-network")


def _ask(rule: str) -> Decision:
    return Decision("ask", load_prompt(f"policy/ask_{rule}"), f"ask-{rule.replace('_', '-')}")


@frozen
class PrincipalContext:
    """Circumstances under which calls are judged.

    `trust` is "local" for the owner's terminal and "remote" for all other channels. `is_confined`
    means that a working sandbox confines commands. `only_tools` and `without_tools` select the
    tools of this run.
    """

    role: Role
    mode: PermissionMode = "ask"
    trust: Trust = "local"
    is_confined: bool = False
    blocked_commands: tuple[str, ...] = BLOCKED_COMMANDS
    only_tools: frozenset[str] | None = None
    without_tools: frozenset[str] = field(default_factory=frozenset)


class RolePolicy:
    """Policy that judges calls by role, channel and mode; the strictest verdict counts."""

    def __init__(self, principal: PrincipalContext) -> None:
        self.principal = principal

    def decide(self, request: ToolRequest) -> Decision:
        """Return the verdict on a call. Touches the disk only to resolve links."""
        return tightest_of(self.evaluate(request))

    def evaluate(self, request: ToolRequest) -> list[Decision]:
        """Return the verdict of every rule, in order of importance.

        A request to leave the sandbox comes first, then objections from the strictest on, then the
        mode. A call is denied if it cannot be judged because of an unresolvable path or an invalid
        name.
        """
        try:
            return self._verdicts(request)
        except Exception as exc:  # noqa: BLE001 - any error counts as a refusal
            log.warning("policy failed for a call of %s: %s", request.tool, exc)
            return [_deny("unjudged", why=f"{type(exc).__name__}: {exc}")]

    def _verdicts(self, request: ToolRequest) -> list[Decision]:
        principal, reach = self.principal, call_effects(request)
        confined = self._confines(request)
        decisions = [
            *self._hard(request, reach),
            *role_objections(
                principal.role, reach, ask=principal.mode != "auto", confined=confined
            ),
        ]
        mode = evaluate_mode(principal.mode, reach, principal.trust, confined)
        if request.outside_reason is not None and principal.mode == "plan":
            mode = _deny("plan-command")
        elif request.outside_reason is not None:
            return [_ask_outside(decisions, request.outside_reason), *decisions]
        if request.deletion is not None and request.deletion.is_final and principal.mode != "plan":
            decisions.append(
                Decision("ask", _deletion_reason(request.deletion), "ask-delete-final")
            )
        if request.network and principal.mode == "plan":
            mode = _deny("plan-command")
        elif request.network:
            decisions.append(_ask_network(request.network))
        if mode.rule == "ask-delete" and request.deletion is not None:
            mode = Decision("ask", _deletion_reason(request.deletion), mode.rule)
        if mode.rule == "ask-unclear":
            mode = Decision(
                "ask", render_prompt("policy/ask_unclear", why=reach.unclear_reason), mode.rule
            )
        return [*decisions, mode]

    def hosts(self, tool: str, governed_by: str | None = None) -> tuple[str, ...] | None:
        """Return the hosts that the role allows a tool to reach; None sets no limit."""
        role = self.principal.role
        rule = role.rule(tool, governed_by)
        if rule is None:
            # A call that a person approved has no other limit.
            return None if role.escalates else ()
        return rule.hosts

    def paths(self, tool: str, governed_by: str | None = None) -> tuple[tuple[str, ...], ...]:
        """Return the files that the role allows a tool to show: by its own scope or that for
        reading."""
        role = self.principal.role
        rule = role.rule(tool, governed_by)
        if rule is None:
            return () if role.escalates else ((),)
        scope = rule.paths
        if scope is None and (reading := role.rule(READING_TOOL)) is not None:
            scope = reading.paths
        return () if scope is None else (scope,)

    def may_write(self, tool: str, governed_by: str | None = None) -> bool:
        """Return whether the role lets commands of a tool change files."""
        return self.principal.role.may_write(tool, governed_by)

    def _confines(self, request: ToolRequest) -> bool:
        """Return whether a sandbox would confine this command."""
        return self.principal.is_confined and request.outside_reason is None

    def _blocked_word(self, script: Script, *, confined: bool) -> str | None:
        """Return a blocked command that the script runs, or None.

        In a sandbox, only commands that must not run even there count. In a script that cannot be
        parsed, any word counts, unless a sandbox confines it. A list written by a person always
        applies in full.
        """
        words = self.principal.blocked_commands
        if not confined or words != BLOCKED_COMMANDS:
            return find_blocked_word(script, words)
        blocked = [word for word in words if word not in CONFINABLE_COMMANDS]
        return find_blocked_word(script, blocked, by_occurrence=False)

    def _hard(self, request: ToolRequest, reach: CallEffects) -> Iterator[Decision]:
        """Yield objections that no role or mode overrides."""
        principal = self.principal
        if reach.script is not None:
            if word := self._blocked_word(reach.script, confined=self._confines(request)):
                yield _deny("blocked-command", word=word)
            folder = request.folder or reach.root
            if folder != reach.root and not folder.is_relative_to(reach.root):
                yield _deny("exec-folder", folder=request.folder, root=reach.root)
            if principal.trust == "remote" and not principal.is_confined:
                yield _deny("remote-exec")
        only_tools = principal.only_tools
        if is_named(request.tool, principal.without_tools) or (
            only_tools is not None and not is_named(request.tool, only_tools)
        ):
            yield _deny("run-tools", tool=request.tool)


class DefaultPolicy:
    """Default policy: the owner at the terminal with the role `build`."""

    def __init__(self, mode: PermissionMode = "ask") -> None:
        self._mode = mode

    def decide(self, request: ToolRequest) -> Decision:
        """Return the verdict of the role `build`; roles are loaded with the first request."""
        return RolePolicy(PrincipalContext(built_in_roles()["build"], self._mode)).decide(request)


def _deny(rule: str, **values: object) -> Decision:
    return Decision("deny", render_prompt(f"policy/{rule.replace('-', '_')}", **values), rule)


@frozen
class DelegatedPolicy:
    """Policy combined with the decision of `mode`; the stricter verdict counts.

    Full access needs no approval, and only `plan` denies changes.
    """

    policy: Policy
    mode: PermissionMode

    def decide(self, request: ToolRequest) -> Decision:
        decision = self.policy.decide(request)
        if decision == FULL_ACCESS and self.mode != "plan":
            return decision
        # The policy judges channel and sandbox, so only the mode counts here.
        mode_decision = evaluate_mode(self.mode, call_effects(request), "local", confined=True)
        if decision == FULL_ACCESS and mode_decision.verdict == "ask":
            return decision
        if mode_decision.verdict == "deny":
            # The mode's own reason refers to the conversation's mode, which a person can change.
            mode_decision = replace(
                mode_decision, reason=render_prompt("policy/agent_mode", mode=self.mode)
            )
        return tightest_of([decision, mode_decision])

    def hosts(self, tool: str, governed_by: str | None = None) -> tuple[str, ...] | None:
        return (
            self.policy.hosts(tool, governed_by) if isinstance(self.policy, LimitsHosts) else None
        )

    def paths(self, tool: str, governed_by: str | None = None) -> tuple[tuple[str, ...], ...]:
        return self.policy.paths(tool, governed_by) if isinstance(self.policy, LimitsPaths) else ()

    def may_write(self, tool: str, governed_by: str | None = None) -> bool:
        return not isinstance(self.policy, LimitsWriting) or self.policy.may_write(
            tool, governed_by
        )


@frozen
class NamedApprover:
    """Approver that asks the caller's approver and names the sub-agent in the reason."""

    approver: Approver
    agent_name: str

    @property
    def defers_answers(self) -> bool:
        return isinstance(self.approver, DefersAnswers) and self.approver.defers_answers

    async def ask(self, request: ApprovalRequest) -> Answer | Answered:
        return await self.approver.ask(
            replace(request, reason=f"{self.agent_name}: {request.reason}")
        )
