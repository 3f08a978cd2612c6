"""Shell script parser that finds every simple command of a line, at any nesting.

The line is parsed with tree-sitter's bash grammar. The grammar accepts more than a shell, and `sh`
is not always bash, so a script counts as opaque wherever they could disagree.
"""

from agent.security.shell.ast import Command, Redirect, Script
from agent.security.shell.grammar import LIMIT_CHARS, ParsingBudget, unreadable
from agent.security.shell.visitor import ScriptVisitor
from agent.security.shell.wrappers import unwrap

__all__ = ["Command", "Redirect", "Script", "parse_script"]

MAX_SCRIPTS = 200
MAX_DEPTH = 8
# Ordinary lines take a thousandth of it; only a crafted line takes longer.
BUDGET_S = 0.1


def parse_script(command: str) -> Script:
    """Return every simple command that `command` would run, as far as it is known; never raise.

    Follows lists, pipelines, groups, loops, functions, substitutions, heredocs, and programs that
    run other programs (`env`, `xargs`, `find -exec`, `sh -c`, `eval`). `opaque_reason` says why
    part of the script is unknown.
    """
    commands: list[Command] = []
    loops: dict[str, tuple[str, ...]] = {}
    opaque: str | None = None
    pending = [(command, 0)]
    computes: set[str] = set()
    texts: set[str] = set()
    sets: set[str] = set()
    scripts = 0
    budget = ParsingBudget(BUDGET_S)
    while pending:
        text, depth = pending.pop()
        scripts += 1
        is_late = budget.left_s < 0
        if is_late or depth > MAX_DEPTH or scripts > MAX_SCRIPTS or len(text) > LIMIT_CHARS:
            opaque = opaque or "it is too long or nested too deeply"
            continue
        if reason := unreadable(text):
            opaque = opaque or reason
            continue
        reading = ScriptVisitor(text, budget)
        opaque = opaque or reading.opaque
        computes |= reading.computes
        texts |= reading.texts
        sets |= reading.sets
        loops |= reading.loops
        inner = list(reading.scripts)
        for command_read in reading.commands:
            nested, reason = unwrap(command_read)
            opaque = opaque or reason
            commands.append(command_read)
            commands.extend(nested.commands)
            inner.extend(nested.scripts)
        pending.extend((script, depth + 1) for script in reversed(inner))
    if computes & texts:
        # The shell evaluates an expression again, and a subscript in it may run a command.
        opaque = opaque or "it evaluates text as an expression"
    return Script(command, tuple(commands), opaque, loops, frozenset(sets))
