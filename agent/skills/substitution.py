"""Substitution of arguments in skills and commands, compatible with Claude Code."""

import re
import shlex
from collections.abc import Sequence

from agent.prompts import load_prompt, render_prompt
from agent.skills.definition import Skill, files_of

_PLACEHOLDER = (
    r"(?P<escaped>\\)?\$(?:ARGUMENTS\[(?P<index>\d+)\]|(?P<all>ARGUMENTS)\b"
    r"|(?P<number>\d+)|(?P<name>[A-Za-z_]\w*))"
)


# Only at the beginning of a line or after whitespace, as in Claude Code.
_COMMAND = r"(?:(?<=\s)|^)!`([^`\n]+)`"
_BLOCK = r"(?sm)^```!\n(.*?)\n```$"


def mark_commands(body: str) -> str:
    """Replace commands, `` !`cmd` `` and ```` ```! ```` blocks, by requests to run them.

    The model runs them with `exec`, subject to policy, approval and sandbox.
    """
    text, count = re.subn(_COMMAND, r"[output of `\1`]", body)
    text, blocks = re.subn(_BLOCK, r"[output of:]\n```\n\1\n```", text)
    return f"{load_prompt('skill_commands')}\n\n{text}" if count + blocks else body


def fill_in(body: str, arguments: str, names: Sequence[str] = ()) -> str:
    """Fill in the arguments: `$0` is the first, `$ARGUMENTS` all of them.

    A number beyond the last argument stays, a name without a value becomes empty, and `\\$1`
    becomes `$1`. If the text has no place for arguments, they are appended.
    """
    values = _split(arguments)
    places = 0

    def value_of(match: re.Match[str]) -> str:
        nonlocal places
        placeholder = match[0]
        if match["escaped"]:
            return placeholder[1:]
        if match["name"] is not None and match["name"] not in names:
            return placeholder
        places += 1
        if match["all"]:
            return arguments
        if match["name"] is not None:
            number = list(names).index(match["name"])
            return values[number] if number < len(values) else ""
        number = int(match["index"] or match["number"])
        return values[number] if number < len(values) else placeholder

    text = re.sub(_PLACEHOLDER, value_of, body)
    if places or not arguments:
        return text
    return f"{text}\n\nARGUMENTS: {arguments}"


def skill_text(skill: Skill, arguments: str = "") -> str:
    """Return the text of a skill for the model, with its arguments and the names of its files."""
    body = fill_in(mark_commands(skill.body), arguments, skill.arguments)
    names = files_of(skill)
    files = render_prompt("skill_files", files=", ".join(names)) if names else ""
    return render_prompt(
        "skill_text", title=skill.title, folder=skill.folder, body=body, files=files
    ).strip()


def _split(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
