"""The tools as people see them: what each is called, what it may do, and who may use it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.tools.aliases import NAMES
from agent.tools.base import Tool
from gateway.policies import Policies


def facts(tools: Iterable[Tool], policies: Policies) -> Sequence[Mapping[str, Any]]:
    """In the order of the tools: name, description, effect, aliases, and the roles that may."""
    return [
        {
            "name": tool.name,
            "description": " ".join(tool.description.split()),
            "effect": tool.effect,
            "aliases": [alias for alias, name in NAMES.items() if name == tool.name],
            "roles": list(_roles(tool.name, policies)),
        }
        for tool in tools
    ]


def _roles(tool: str, policies: Policies) -> Iterable[str]:
    for name in policies.names:
        role = policies.role(name)
        rule = role.rule(tool) if role else None
        if rule is not None and rule.allow:
            yield name
