"""Policy verdicts for a role, for display."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.records import frozen
from agent.security.policy.base import COMMAND_TOOL, Decision, PermissionMode, ToolRequest
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.roles import Grants, Role
from agent.security.shell.classifier import only_reads
from agent.security.shell.parser import parse_script
from gateway.access.roles import RoleRegistry
from gateway.core.messages import CONSOLE


@frozen
class PolicyCase:
    """A role, its policy, and the `folder` in which commands run."""

    role: Role
    policy: RolePolicy
    folder: Path

    def request(self, command: str) -> ToolRequest:
        """Return the request to run a command in this folder."""
        folder = self.folder
        return ToolRequest(
            COMMAND_TOOL,
            "unsafe",
            {"command": command},
            folder,
            command=command,
            folder=folder,
            read_only=self.policy.principal.is_confined and only_reads(command, folder, folder),
        )

    def verdicts(self, command: str) -> list[dict[str, str]]:
        """Return every rule's verdict on the whole line and on each of several parts."""
        request = self.request(command)
        decisions = self.policy.evaluate(request)
        verdicts = [{"part": "all", **decision_facts(decision)} for decision in decisions]
        parts = [part.text for part in parse_script(command).commands if part.argv]
        if len(parts) > 1:
            for text in dict.fromkeys(parts):
                decision = self.policy.decide(self.request(text))
                verdicts.append({"part": text, **decision_facts(decision)})
        return verdicts


def make_case(
    policies: RoleRegistry,
    *,
    role: str,
    mode: PermissionMode | None,
    channel: str,
    folder: Path,
    is_confined: bool,
) -> PolicyCase:
    """Return the case for an existing role; without `mode`, the channel's mode applies."""
    current = policies.role(role)
    assert current is not None, "the caller has checked it"
    principal = PrincipalContext(
        role=current,
        mode=mode or policies.default_mode(channel),
        trust="local" if channel == CONSOLE else "remote",
        is_confined=is_confined,
        blocked_commands=policies.blocked_commands,
    )
    return PolicyCase(current, RolePolicy(principal), folder)


def decision_facts(decision: Decision) -> dict[str, str]:
    return {"decision": decision.verdict, "reason": decision.reason, "rule": decision.rule}


def describe_role(role: Role) -> dict[str, Any]:
    """Describe a role as JSON.

    `tools` are the tools that the role names, each with its scopes; `agents` are the restrictions
    from the setting `agents`.
    """
    return {
        "name": role.name,
        "source": role.source,
        "agents": {} if role.grants == Grants() else asdict(role.grants),
        "tools": {name: scopes_of(role, name) for name in role.tools},
    }


def scopes_of(role: Role, tool: str) -> dict[str, Any]:
    """Return the scopes that the role sets for a tool."""
    rule = role.rule(tool)
    if rule is None:
        return {"allow": False}
    scopes: dict[str, Any] = {"allow": rule.allow}
    scopes |= {name: True for name in ("ask", "new_files_only") if getattr(rule, name)}
    for name in ("paths", "commands", "hosts"):
        if (values := getattr(rule, name)) is not None:
            scopes[name] = list(values)
    return scopes
