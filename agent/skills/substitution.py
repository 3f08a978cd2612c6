"""Arguments in the text of a skill or a command, as Claude Code fills them in."""

import re
import shlex
from collections.abc import Sequence

from agent.prompts import load_prompt

_PLACE = re.compile(
    r"(?P<escaped>\\)?\$(?:ARGUMENTS\[(?P<index>\d+)\]|(?P<all>ARGUMENTS)\b"
    r"|(?P<number>\d+)|(?P<name>[A-Za-z_]\w*))"
)


# Only at the beginning of a line or behind a blank, as Claude Code has it.
_COMMAND = re.compile(r"(?:(?<=\s)|^)!`([^`\n]+)`")
_BLOCK = re.compile(r"^```!\n(.*?)\n```$", re.DOTALL | re.MULTILINE)


def mark_commands(body: str) -> str:
    """The text with its commands, `` !`cmd` `` and blocks ```` ```! ````, as what the model is to
    run: it calls `exec` like for any other command, with its policy, questions and sandbox."""
    text, count = _COMMAND.subn(r"[output of `\1`]", body)
    text, blocks = _BLOCK.subn(r"[output of:]\n```\n\1\n```", text)
    return f"{load_prompt('skill_commands')}\n\n{text}" if count + blocks else body


def fill_in(body: str, arguments: str, names: Sequence[str] = ()) -> str:
    """The text with its arguments: `$0` is the first one, `$ARGUMENTS` the whole line. A number
    beyond the last stays as it is, a name without a value is empty, `\\$1` is `$1`. A text without
    any place for them has them at its end."""
    values = _split(arguments)
    places = 0

    def value_of(match: re.Match[str]) -> str:
        nonlocal places
        whole = match[0]
        if match["escaped"]:
            return whole[1:]
        if match["name"] is not None and match["name"] not in names:
            return whole
        places += 1
        if match["all"]:
            return arguments
        if match["name"] is not None:
            number = list(names).index(match["name"])
            return values[number] if number < len(values) else ""
        number = int(match["index"] or match["number"])
        return values[number] if number < len(values) else whole

    text = _PLACE.sub(value_of, body)
    if places or not arguments:
        return text
    return f"{text}\n\nARGUMENTS: {arguments}"


def _split(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
