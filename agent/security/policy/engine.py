"""The policy engine: one decision for each call, the tightest that any rule comes to."""

import logging
from collections.abc import Iterator
from dataclasses import field

from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.policy.base import BLOCKED_COMMANDS, Decision, ToolRequest, Trust, tightest_of
from agent.security.policy.call_effects import CallEffects, reach_of
from agent.security.policy.mode_rules import evaluate_mode
from agent.security.policy.modes import PermissionMode
from agent.security.policy.role_rules import role_objections
from agent.security.policy.roles import Role, built_in_roles
from agent.security.shell.classifier import find_blocked_word

log = logging.getLogger(__name__)


@frozen
class PrincipalContext:
    """Under which circumstances somebody's calls are judged.

    `trust` is "local" for the owner's terminal and "remote" for every other channel. `confined`
    says that a working sandbox holds commands. `only_tools` and `without_tools` are the choice
    of this one run.
    """

    role: Role
    mode: PermissionMode = "ask"
    trust: Trust = "local"
    confined: bool = False
    blocked_commands: tuple[str, ...] = BLOCKED_COMMANDS
    only_tools: frozenset[str] | None = None
    without_tools: frozenset[str] = field(default_factory=frozenset)


class RolePolicy:
    """Judges calls by role, channel and mode. Of several verdicts the tightest counts."""

    def __init__(self, standing: PrincipalContext) -> None:
        self.standing = standing

    def decide(self, request: ToolRequest) -> Decision:
        """The verdict on one call; it touches the disk only to resolve links."""
        return tightest_of(self.weigh(request))

    def weigh(self, request: ToolRequest) -> list[Decision]:
        """Every rule's verdict: first the objections, the hardest in front, and last the mode's.

        A call that no rule can be put to (its path cannot be followed, a name in it is no name
        for the operating system) is denied.
        """
        try:
            return self._verdicts(request)
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is a refusal that is told
            log.warning("a call of %s cannot be judged: %s", request.tool, exc)
            return [_deny("unjudged", why=f"{type(exc).__name__}: {exc}")]

    def _verdicts(self, request: ToolRequest) -> list[Decision]:
        standing, reach = self.standing, reach_of(request)
        decisions = [
            *self._hard(request, reach),
            *role_objections(standing.role, reach, ask=standing.mode != "auto"),
        ]
        mode = evaluate_mode(standing.mode, reach, standing.trust, standing.confined)
        if mode.rule == "ask-unclear":
            mode = Decision(
                "ask", render_prompt("policy/ask_unclear", why=reach.unclear), mode.rule
            )
        return [*decisions, mode]

    def hosts(self, tool: str) -> tuple[str, ...] | None:
        """The hosts that the role lets a tool reach; None sets no limit."""
        rule = self.standing.role.rule(tool)
        return () if rule is None else rule.hosts

    def paths(self, tool: str) -> tuple[tuple[str, ...], ...]:
        """The files that the role lets a tool show: its own scope, or else that of reading."""
        role = self.standing.role
        rule = role.rule(tool)
        if rule is None:
            return ((),)
        scope = rule.paths
        if scope is None and (reading := role.rule("read_file")) is not None:
            scope = reading.paths
        return () if scope is None else (scope,)

    def _hard(self, request: ToolRequest, reach: CallEffects) -> Iterator[Decision]:
        """What no role and no mode makes good."""
        standing = self.standing
        if reach.script is not None:
            if word := find_blocked_word(reach.script, standing.blocked_commands):
                yield _deny("blocked-command", word=word)
            folder = request.folder or reach.root
            if folder != reach.root and not folder.is_relative_to(reach.root):
                yield _deny("exec-folder", folder=request.folder, root=reach.root)
            if standing.trust == "remote" and not standing.confined:
                yield _deny("remote-exec")
        chosen = standing.only_tools
        if request.tool in standing.without_tools or (
            chosen is not None and request.tool not in chosen
        ):
            yield _deny("run-tools", tool=request.tool)


class DefaultPolicy:
    """The rule of whoever names none: the owner at the terminal, who builds."""

    def __init__(self, mode: PermissionMode = "ask") -> None:
        self._mode = mode

    def decide(self, request: ToolRequest) -> Decision:
        """The verdict of role build; the roles are read at the first question."""
        return RolePolicy(PrincipalContext(built_in_roles()["build"], self._mode)).decide(request)


def _deny(rule: str, **values: object) -> Decision:
    return Decision("deny", render_prompt(f"policy/{rule.replace('-', '_')}", **values), rule)
