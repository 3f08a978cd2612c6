"""Tools as people see them: names, descriptions, and the roles that may use them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.i18n import mark_for_translation, t
from agent.tools.base import Tool
from agent.tools.traits import traits_of
from gateway.access.roles import RoleRegistry

# How the descriptions of the tools begin that Kore itself has: for the catalogues.
BEGINNINGS = (
    mark_for_translation("Read a text file, PDF or picture"),
    mark_for_translation("Create or overwrite a file with this exact content"),
    mark_for_translation("Replace text in a file, with one or several edits"),
    mark_for_translation("Append text to a file"),
    mark_for_translation("Move or rename a file or folder"),
    mark_for_translation("List a folder with sizes"),
    mark_for_translation("Find files by name pattern, newest first"),
    mark_for_translation("Search file contents by regular expression"),
    mark_for_translation("Run a shell command"),
    mark_for_translation("Background commands"),
    mark_for_translation("Search the web: titles, URLs, snippets"),
    mark_for_translation("Fetch a public web page as markdown"),
    mark_for_translation("Save one lasting fact about the person or their work"),
    mark_for_translation(
        "Search the person's memory and past conversations for what is not here, by "
        "keywords (names, terms)"
    ),
    mark_for_translation("Write the whole to-do list each time"),
    mark_for_translation("Undo the last steps that changed files"),
    mark_for_translation("Ask the person, with options if it helps"),
    mark_for_translation("Send files to the person, several as an album, with a caption"),
    mark_for_translation("Jobs: add, list, remove, pause, resume, run"),
    mark_for_translation("Delegate work to a sub-agent"),
    mark_for_translation("Change several files with one patch (*** Begin Patch … *** End Patch)"),
)


def list_tools(tools: Iterable[Tool], policies: RoleRegistry) -> Sequence[Mapping[str, Any]]:
    """In the order of the tools: name, description, effect, aliases, and the roles that may."""
    return [
        {
            "name": tool.name,
            "description": " ".join(tool.description.split()),
            "effect": tool.effect,
            "aliases": list(traits_of(tool).aliases),
            "roles": list(_roles(tool.name, policies)),
        }
        for tool in tools
    ]


def beginning(description: str) -> str:
    """What a person wants to know of it: behind the first halt stands how a model is to call it."""
    return t(" ".join(re.split(r"[.;]", description)[0].split()))


def _roles(tool: str, policies: RoleRegistry) -> Iterable[str]:
    for name in policies.names:
        role = policies.role(name)
        rule = role.rule(tool) if role else None
        if rule is not None and rule.allow:
            yield name
