"""Shell commands that apply a patch: some models call `apply_patch` as a program."""

import os
import re

from agent.security.shell.ast import Redirect
from agent.security.shell.parser import parse_script

# The program, and the tool that replaces it.
PROGRAM = "apply_patch"
_BEGIN = "*** Begin Patch"
_PATH = re.compile(r"^(\*\*\* (?:(?:Update|Add|Delete) File|Move to): *)(\S.*)$", re.MULTILINE)


def find_patch(command: str, folder: str = "") -> str | None:
    """Return the patch that a command applies, or None if it does anything else.

    The patch is the command's argument or a heredoc without expansions, after at most one `cd`.
    Its relative paths are made relative to the parent of `folder`, where the command would run.
    """
    if PROGRAM not in command or _BEGIN not in command:
        return None
    script = parse_script(command)
    if script.opaque_reason is not None or any(command.assignments for command in script.commands):
        return None
    # The grammar attaches the heredoc of the last command to the whole list.
    redirects = [redirect for command in script.commands for redirect in command.redirects]
    match [command.argv for command in script.commands if command.argv]:
        case [("cd", str(path)), (*words,)]:
            folder = os.path.join(folder, path)
        case [(*words,)]:
            pass
        case _:
            return None
    match words, redirects:
        case [program, str(patch)], []:
            pass
        case [program], [Redirect("<<" | "<<<", str(patch))]:
            pass
        case _:
            return None
    if program != PROGRAM:
        return None
    return _PATH.sub(lambda match: match[1] + os.path.join(folder, match[2]), patch)
