"""Classification of shell lines: reading, working, unknown or blocked.

`find_blocked_word` prevents accidents and is not a security boundary: an encoded script or another
program can always do what a blocked word does. The security boundaries are the policy, the sandbox
and the approval.
"""

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

from agent.security.shell.ast import Command, Redirect, Script
from agent.security.shell.git_safety import is_safe_repository
from agent.security.shell.parser import parse_script
from agent.security.shell.path_scope import (
    NO_SANDBOX,
    STREAMS,
    PathScope,
    SandboxScope,
    place_of,
    redirect_targets,
)
from agent.security.shell.program_arguments import CommandClass, Spec, classify_arguments
from agent.security.shell.program_table import programs
from agent.security.shell.variables import is_risky, may_set_risky
from agent.security.shell.words import GLOB

__all__ = ["CommandClass", "classify", "find_blocked_word", "only_reads"]

SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin", "/usr/local/bin"})

WRITES = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})

READS = frozenset({"<", "<&"})

TEXT = frozenset({"<<", "<<<", ">&-", "<&-"})


def classify_command(command: Command, script: Script, place: PathScope) -> CommandClass:
    """Return the class of `command`, including its assignments and redirections."""
    if any(is_risky(name) for name, _ in command.assignments):
        return "unknown"
    kind = strictest_class(_redirects(redirect, script, place) for redirect in command.redirects)
    if not command.argv or kind == "unknown":
        return kind
    return strictest_class((kind, _program(command, script, place)))


def strictest_class(kinds: Iterable[CommandClass]) -> CommandClass:
    classes = set(kinds)
    return "unknown" if "unknown" in classes else "works" if "works" in classes else "reads"


def _redirects(redirect: Redirect, script: Script, place: PathScope) -> CommandClass:
    op, target = redirect.op, redirect.target
    if op in TEXT or (op in (">&", "<&") and target is not None and target.rstrip("-").isdigit()):
        return "reads"
    targets = redirect_targets(redirect, script)
    if targets is None or op not in WRITES | READS or (target and GLOB.search(target)):
        return "unknown"
    if not all(map(place.holds, targets)):
        return "unknown"
    if any(map(GLOB.search, targets)):
        # The pattern may match a link that leads outside.
        return "works"
    return "works" if op in WRITES and target not in STREAMS else "reads"


def _program(command: Command, script: Script, place: PathScope) -> CommandClass:
    name = command.argv[0]
    if name is None:
        return "unknown"
    folder, slash, last = name.rpartition("/")
    is_own = bool(slash) and folder not in SYSTEM_FOLDERS
    spec: Spec | None = programs().get(last)
    if is_own:
        # Running a program in the workspace counts as work, even if it is a link, as in a virtual
        # environment: the sandbox decides whether its target is visible. Elsewhere, this applies
        # only to known programs in folders that the sandbox shows.
        if place.holds_program(name):
            spec = spec or {"class": "works"}
        elif not place.sandbox.shows_program(name):
            spec = None
    if spec is None or may_set_risky(command, script):
        return "unknown"
    if "services" in spec and place.sandbox.lasting_services:
        return "unknown"
    first = 1
    while "sub" in spec:
        first, spec = _subcommand(command, spec, first, place)
    kind = classify_arguments(command, script, place, spec, first)
    if kind == "reads" and is_own:
        return "works"
    if kind == "reads" and last == "git":
        # With `-C` or `cd`, git may run in a folder that is not checked here.
        tame = (
            not place.moves
            and "-C" not in command.argv
            and is_safe_repository(place.folders[0], place.root)
        )
        return "reads" if tame else "works"
    return kind


def _subcommand(command: Command, spec: Spec, first: int, place: PathScope) -> tuple[int, Spec]:
    """Return the index of the first argument after the subcommand, and its table entry."""
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
            entry = spec["sub"].get(word) if word else None
            return at + 1, entry or {"class": spec.get("others", "unknown")}
    return at, {"class": spec.get("alone", "unknown")}


def find_blocked_word(
    command: str | Script, blocked: Collection[str], *, by_occurrence: bool = True
) -> str | None:
    """Return the first blocked word that `command` would run, or None.

    Follows lists, substitutions, wrappers such as `env` and `xargs`, and strings passed to a shell.
    In an opaque script, any occurrence of a blocked word counts if `by_occurrence` is true.
    """
    words = _fold(tuple(blocked))
    if not words:
        return None
    script = parse_script(command) if isinstance(command, str) else command
    for part in script.commands:
        if (name := part.program) in words:
            return name
    return _anywhere(script.text, words) if script.opaque_reason and by_occurrence else None


def classify(
    script: Script, folder: Path, workspace: Path, sandbox: SandboxScope = NO_SANDBOX
) -> CommandClass:
    """Return the class of `script` when it runs in `folder`; both paths are real.

    "reads" means that it only reads the workspace. "works" means that it builds, tests and edits
    inside it; it may run the workspace's code, so it needs a sandbox. "unknown" is everything else.
    """
    if script.opaque_reason:
        return "unknown"
    place = place_of(script, folder, workspace, sandbox)
    if place is None:
        return "unknown"
    kinds = [classify_command(command, script, place) for command in script.commands]
    if any(is_risky(name) for name in script.assigned_names):
        return "unknown"
    return strictest_class(kinds)


def has_service_client(script: Script) -> bool:
    """Return whether a line runs a program that changes data of services."""
    return any(
        "services" in programs().get(command.program or "", ()) for command in script.commands
    )


def only_reads(command: str, folder: Path, workspace: Path) -> bool:
    """Return whether a line only reads the workspace, so that it may run read-only."""
    return classify(parse_script(command), folder, workspace) == "reads"


@lru_cache(maxsize=16)
def _fold(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word.casefold() for word in words)


def _anywhere(command: str, words: frozenset[str]) -> str | None:
    pattern = r"(?<![a-z0-9_])(" + "|".join(map(re.escape, sorted(words))) + r")(?![a-z0-9_])"
    # Quotes, backslashes and line continuations do not change the program that the shell runs.
    bare = re.sub(r"\\\n|[\\'\"]", "", command.casefold())
    match = re.search(pattern, bare)
    return match.group(1) if match else None
