"""The tools as people see them: what each is called, what it may do, and who may use it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.i18n import later, t
from agent.tools.aliases import NAMES
from agent.tools.base import Tool
from gateway.access.roles import Policies

# How the descriptions of the tools begin that Kore itself has: for the catalogues.
BEGINNINGS = (
    later("Read a text file"),
    later("Create or overwrite a file with this exact content"),
    later("Replace text in a file, once or by several edits"),
    later("Append exact text to a file"),
    later("List a folder with sizes"),
    later("Find files by name pattern, newest first"),
    later("Search file contents by regular expression"),
    later("Run a shell command (sh -c)"),
    later("Background commands"),
    later("Search the web: titles, URLs, snippets"),
    later("Fetch a public web page as markdown"),
    later("Keep one lasting fact about the person or their work"),
    later("Search the person's memory and past conversations by words"),
    later("Keep the list of what is to be done, whole each time"),
    later("Takes back the last steps in which tools of this conversation changed files"),
    later("Ask the person, with options if it helps"),
    later("Send files to the person, several as an album, with a caption"),
    later("Jobs: add, list, remove, pause, resume, run"),
    later("Have a sub-agent do work"),
)


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


def beginning(description: str) -> str:
    """What a person wants to know of it: behind the first halt stands how a model is to call it."""
    return t(" ".join(re.split(r"[.;]", description)[0].split()))


def _roles(tool: str, policies: Policies) -> Iterable[str]:
    for name in policies.names:
        role = policies.role(name)
        rule = role.rule(tool) if role else None
        if rule is not None and rule.allow:
            yield name
