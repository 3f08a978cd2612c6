"""Shell grammar: checks before parsing, and a syntax tree within a time budget."""

import re
import time
from functools import cache
from typing import TYPE_CHECKING

from agent.errors import ToolError
from agent.text.visible import escape_invisible

if TYPE_CHECKING:
    from agent.security.grammars.parser_process import ParserProcess, SyntaxTree

# Longer lines are not parsed, so that one command does not delay others.
MAX_CHARS = 10_000
SHORT_BYTES = 300
# Characters that may begin a construct; the parser's work grows with their number.
MARKS = str.maketrans(dict.fromkeys('|&;()[]{}<>$`"\n'))
MAX_MARKS = 2_000
# Control characters that legitimate lines never contain.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
# The shell evaluates a subscript as an expression, even in quoted text.
SUBSCRIPT = re.compile(r"(?<=[^\s;&|(\[!])\[[^\[\]]*(?:\$\(|`|\$\{)")

# Limit for one text. The kernel kills a parser that takes longer.
_CPU_LIMIT_S = 1.0
_WIDE = re.compile(rb"[\xc2-\xdf].|[\xe0-\xef]..|[\xf0-\xf4]...", re.DOTALL)
_NARROW = {2: "×".encode(), 3: "×x".encode(), 4: "××".encode()}


class ParsingBudget:
    """Processor time allowed for a line, here and in the parser.

    Processor time makes the result independent of the load of the machine. `parser` parses the
    line, by default the parser process for the judgement of commands.
    """

    def __init__(self, seconds: float, parser: "ParserProcess | None" = None) -> None:
        self._deadline = time.thread_time() + seconds
        self.parser = parser or command_parser()

    @property
    def left_s(self) -> float:
        return self._deadline - time.thread_time()

    def spend(self, seconds: float) -> None:
        self._deadline -= seconds


@cache
def command_parser() -> "ParserProcess":
    """Return the parser process for command lines.

    It is separate, so that a file that takes over the parser of files cannot affect how commands
    are judged.
    """
    return new_parser()


def new_parser() -> "ParserProcess":
    """Return a parser process for shell scripts, which starts when it is first used."""
    from agent.security.grammars.parser_process import ParserProcess

    return ParserProcess({"Bash": ("tree_sitter_bash", "language")})


def syntax_tree(source: bytes, budget: ParsingBudget) -> "SyntaxTree | None":
    """Return the tree, or None if the parser failed or its error recovery would take seconds."""
    from agent.security.grammars.parser_process import decode_tree

    is_short = len(source) <= SHORT_BYTES
    limits = {} if is_short else {"limit_s": max(budget.left_s, 0.0), "is_strict": True}
    try:
        answer = budget.parser.parse("Bash", _narrow(source), _CPU_LIMIT_S, tree=True, **limits)
        budget.spend(float(answer["seconds"]))
        return decode_tree(answer["tree"], source)
    except (ToolError, LookupError, TypeError, ValueError):
        return None


def _narrow(source: bytes) -> bytes:
    """Return text of the same length with `×` in place of non-ASCII characters.

    The scanner of the bash grammar looks characters up in a table of 256 entries. Larger code
    points read memory out of bounds and have crashed the process (tree-sitter-bash 0.25.1, 40 times
    `{` before U+10FFFF). Bash treats none of these characters as whitespace or as part of a
    variable name.
    """
    return _WIDE.sub(lambda match: _NARROW[len(match[0])], source)


def unreadable(text: str) -> str | None:
    """Return the reason why `text` cannot be shown or parsed at all, or None."""
    if len(text) > MAX_MARKS and len(text) - len(text.translate(MARKS)) > MAX_MARKS:
        return "it is too long or nested too deeply"
    if CONTROL.search(text) or (not text.isascii() and escape_invisible(text) != text):
        return "it contains control or invisible characters"
    if "[" in text and SUBSCRIPT.search(text):
        return "a subscript in it may run a command"
    return None
