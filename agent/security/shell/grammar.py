"""The grammar: what is fit to be parsed at all, and its syntax tree within a budget of time."""

import re
import time
from functools import cache
from typing import TYPE_CHECKING

from agent.text.visible import escape_invisible

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

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

_WIDE = re.compile(rb"[\xc2-\xdf].|[\xe0-\xef]..|[\xf0-\xf4]...", re.DOTALL)
_NARROW = {2: "×".encode(), 3: "×x".encode(), 4: "××".encode()}


@cache
def bash_parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def syntax_tree(source: bytes, deadline: float) -> "Node | None":
    """The root of the syntax tree, or None: the parser's repair of long errors takes seconds.

    `deadline` is one of `time.thread_time()`: a line reads the same on a busy machine.
    """
    parser = bash_parser()
    short = len(source) <= SHORT_BYTES
    if short and source.isascii():
        return parser.parse(source).root_node
    text = _narrow(source)

    def read(at: int, _: object) -> bytes:
        return text[at:]

    def give_up(_: int, has_error: bool) -> bool:
        return not short and (has_error or time.thread_time() > deadline)

    try:
        root = parser.parse(read, progress_callback=give_up).root_node
    except ValueError:
        parser.reset()
        return None
    # From here on it is read for the texts of nodes.
    text = source
    return root


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
