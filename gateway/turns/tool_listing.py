"""List of tools for people: names, descriptions and roles that may use them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.i18n import t
from agent.tools.base import Tool
from agent.tools.traits import traits_of
from gateway.access.roles import RoleRegistry


def list_tools(tools: Iterable[Tool], policies: RoleRegistry) -> Sequence[Mapping[str, Any]]:
    """Return name, description, effect, aliases and permitted roles of the tools, in order."""
    return [
        {
            "name": tool.name,
            "description": " ".join(tool.description.split()),
            "effect": tool.effect,
            "aliases": list(traits_of(tool).aliases),
            "roles": list(_roles(tool, policies)),
        }
        for tool in tools
    ]


def beginning(description: str) -> str:
    """Return the first clause of a description; the rest is for models."""
    return t(" ".join(re.split(r"[.;]", description)[0].split()))


def _roles(tool: Tool, policies: RoleRegistry) -> Iterable[str]:
    for name in policies.names:
        role = policies.role(name)
        rule = role.rule(tool.name, traits_of(tool).governed_by) if role else None
        if rule is not None and rule.allow:
            yield name
