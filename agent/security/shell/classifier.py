"""Judges a shell line: does it run a blocked word, does it look, does it work, or is it unknown.

`find_blocked_word` is a seat belt against slips, not a wall: an encoded script or another program can
always do what a blocked word does. The walls are the policy, the sandbox and the approval.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from agent.security.shell.ast import Script
from agent.security.shell.conduct import classify_command, is_risky, strictest_class
from agent.security.shell.parser import parse_script
from agent.security.shell.path_scope import place_of
from agent.security.shell.program_arguments import CommandClass

__all__ = ["CommandClass", "find_blocked_word", "classify", "only_reads"]


def find_blocked_word(command: str | Script, blocked: Collection[str]) -> str | None:
    """The first blocked word that `command` would run, or None.

    Sees through lists, substitutions, wrappers such as `env` and `xargs`, and strings given to a
    shell. Where the script is opaque, any occurrence of a blocked word counts.
    """
    words = _folded(tuple(blocked))
    if not words:
        return None
    script = parse_script(command) if isinstance(command, str) else command
    for each in script.commands:
        if (name := each.program) in words:
            return name
    return _anywhere(script.text, words) if script.opaque else None


def classify(script: Script, folder: Path, workspace: Path) -> CommandClass:
    """What `script` does when it runs in `folder`, at most; both paths are real.

    "reads" only looks at the workspace, "works" builds, tests and edits inside it (and may run its
    code, so it needs a sandbox), "unknown" is everything else.
    """
    place = None if script.opaque else place_of(script, folder, workspace)
    if place is None:
        return "unknown"
    kinds = [classify_command(command, script, place) for command in script.commands]
    if any(is_risky(name) for name in script.sets):
        return "unknown"
    return strictest_class(kinds)


def only_reads(command: str, folder: Path, workspace: Path) -> bool:
    """Whether a line counts as looking at the workspace, so that it may run read-only."""
    return classify(parse_script(command), folder, workspace) == "reads"


@lru_cache(maxsize=16)
def _folded(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word.casefold() for word in words)


def _anywhere(command: str, words: frozenset[str]) -> str | None:
    pattern = r"(?<![a-z0-9_])(" + "|".join(map(re.escape, sorted(words))) + r")(?![a-z0-9_])"
    # Quotes, backslashes and what cannot be seen do not change what the shell runs.
    bare = re.sub(r"\\\n|[\\'\"]", "", command.casefold())
    match = re.search(pattern, bare)
    return match.group(1) if match else None
