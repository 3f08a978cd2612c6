"""The grammar: what is fit to be parsed at all, and its syntax tree within a budget of time."""

import re
import time
from functools import cache
from typing import TYPE_CHECKING

from agent.errors import ToolError
from agent.text.visible import escape_invisible

if TYPE_CHECKING:
    from agent.security.grammars.parser_process import ParserProcess
    from agent.security.grammars.syntax_tree import SyntaxTree

# Longer lines are not parsed: one command must not keep others waiting.
LIMIT_CHARS = 10_000
SHORT_BYTES = 300
# Characters that may begin something; the work of the parser grows with them.
MARKS = str.maketrans(dict.fromkeys('|&;()[]{}<>$`"\n'))
MAX_MARKS = 2_000
# What no honest line needs.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
# A subscript is computed as an expression, also where it stands in quoted text.
SUBSCRIPT = re.compile(r"(?<=[^\s;&|(\[!])\[[^\[\]]*(?:\$\(|`|\$\{)")

# Of one text. The kernel ends a parser that takes longer.
_CPU_LIMIT_S = 1.0
_WIDE = re.compile(rb"[\xc2-\xdf].|[\xe0-\xef]..|[\xf0-\xf4]...", re.DOTALL)
_NARROW = {2: "×".encode(), 3: "×x".encode(), 4: "××".encode()}


class ParsingBudget:
    """Processor time that a line may take, here and in the parser: it reads the same on a busy
    machine."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.thread_time() + seconds

    @property
    def left_s(self) -> float:
        return self._deadline - time.thread_time()

    def spend(self, seconds: float) -> None:
        self._deadline -= seconds


@cache
def _parser() -> "ParserProcess":
    """The process for command lines alone: a file that takes over its parser judges no command."""
    from agent.security.grammars.parser_process import ParserProcess

    return ParserProcess({"Bash": ("tree_sitter_bash", "language")})


def syntax_tree(source: bytes, budget: ParsingBudget) -> "SyntaxTree | None":
    """Return the tree, or None: the parser failed, or its repair of long errors takes seconds."""
    from agent.security.grammars.syntax_tree import decode_tree

    is_short = len(source) <= SHORT_BYTES
    limits = {} if is_short else {"limit_s": max(budget.left_s, 0.0), "is_strict": True}
    try:
        answer = _parser().parse("Bash", _narrow(source), _CPU_LIMIT_S, tree=True, **limits)
        budget.spend(float(answer["seconds"]))
        return decode_tree(answer["tree"], source)
    except (ToolError, LookupError, TypeError, ValueError):
        return None


def _narrow(source: bytes) -> bytes:
    """Of the same length, with `×` for all that is not ASCII.

    The bash grammar's scanner looks characters up in a table of 256 entries: what lies beyond is
    read from anywhere, and has killed the process (tree-sitter-bash 0.25.1, 40 times `{` before
    U+10FFFF). For bash, too, none of them is a blank or part of a variable's name.
    """
    return _WIDE.sub(lambda match: _NARROW[len(match[0])], source)


def unreadable(text: str) -> str | None:
    """Why `text` cannot be shown and parsed at all, or None."""
    if len(text) > MAX_MARKS and len(text) - len(text.translate(MARKS)) > MAX_MARKS:
        return "it is too long or nested too deeply"
    if CONTROL.search(text) or (not text.isascii() and escape_invisible(text) != text):
        return "it contains control or invisible characters"
    if "[" in text and SUBSCRIPT.search(text):
        return "a subscript in it may run a command"
    return None
