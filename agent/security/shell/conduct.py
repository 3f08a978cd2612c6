"""What one program does with its arguments, judged by the table of known programs."""

import re
from collections.abc import Iterable
from functools import cache

from agent.security.shell.ast import Command, Redirect, Script
from agent.security.shell.git_safety import is_safe_repository
from agent.security.shell.path_scope import STREAMS, PathScope
from agent.security.shell.program_arguments import CommandClass, Spec, classify_arguments
from agent.security.shell.program_table import programs, variables
from agent.security.shell.words import GLOB

SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin", "/usr/local/bin"})
WRITES = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
READS = frozenset({"<", "<&"})
TEXT = frozenset({"<<", "<<<", ">&-", "<&-"})
# What a table entry says of options.
NAME = re.compile(r"([A-Za-z_]\w*)(?:\[[^=]*\])?\+?(?:=|$)")
# Programs that give a variable its value by name.
SETTERS = frozenset(
    {"read", "printf", "getopts", "unset", "export", "declare", "typeset", "readonly", "local"}
)


def classify_command(command: Command, script: Script, place: PathScope) -> CommandClass:
    """The most that `command` may do, its assignments and redirections included."""
    if any(is_risky(name) for name, _ in command.assignments):
        return "unknown"
    kind = strictest_class(_redirects(each, place) for each in command.redirects)
    if not command.argv or kind == "unknown":
        return kind
    return strictest_class((kind, _program(command, script, place)))


def strictest_class(kinds: Iterable[CommandClass]) -> CommandClass:
    found = set(kinds)
    return "unknown" if "unknown" in found else "works" if "works" in found else "reads"


@cache
def is_risky(name: str) -> bool:
    """Whether a variable of this name changes which programs run or what they load."""
    return any(
        name == risky
        or (risky[-1] == "*" and name.startswith(risky[:-1]))
        or (risky[0] == "*" and name.endswith(risky[1:]))
        for risky in variables()["risky"] | variables()["runs"]
    )


def _redirects(redirect: Redirect, place: PathScope) -> CommandClass:
    op, target = redirect.op, redirect.target
    if op in TEXT or (op in (">&", "<&") and target is not None and target.rstrip("-").isdigit()):
        return "reads"
    if target is None or op not in WRITES | READS or GLOB.search(target):
        return "unknown"
    if not place.holds(target):
        return "unknown"
    return "works" if op in WRITES and target not in STREAMS else "reads"


def _program(command: Command, script: Script, place: PathScope) -> CommandClass:
    name = command.argv[0]
    if name is None:
        return "unknown"
    folder, slash, last = name.rpartition("/")
    if slash and folder not in SYSTEM_FOLDERS:
        # A program of the workspace: running it is work.
        spec: Spec | None = {"class": "works"} if place.holds(name) else None
    else:
        spec = programs().get(last)
    if spec is None or (last in SETTERS and _sets_risky(command)):
        return "unknown"
    first = 1
    while "sub" in spec:
        first, spec = _subcommand(command, spec, first, place)
    kind = classify_arguments(command, script, place, spec, first)
    if kind == "reads" and last == "git":
        # Its `-C` and a `cd` start it elsewhere than could be looked at in time.
        tame = (
            not place.moves
            and "-C" not in command.argv
            and is_safe_repository(place.folders[0], place.root)
        )
        return "reads" if tame else "works"
    return kind


def _sets_risky(command: Command) -> bool:
    """Whether a command that sets variables sets one that matters, or one that is computed."""
    for value, source in zip(command.argv[1:], command.words[1:], strict=False):
        word = source if value is None else value
        match = NAME.match(word)
        if is_risky(match[1]) if match else value is None and command.argv[0] != "printf":
            return True
    return False


def _subcommand(command: Command, spec: Spec, first: int, place: PathScope) -> tuple[int, Spec]:
    """Where the subcommand's arguments begin, and what is known of it."""
    at = first
    while at < len(command.argv):
        word = command.argv[at]
        if word in spec.get("global_flags", ()):
            at += 1
        elif word in spec.get("global_values", ()):
            value = command.argv[at + 1] if at + 1 < len(command.argv) else None
            if value is None or not place.holds(value):
                break
            at += 2
        else:
            found = spec["sub"].get(word) if word else None
            return at + 1, found or {"class": spec.get("others", "unknown")}
    return at, {"class": spec.get("alone", "unknown")}
