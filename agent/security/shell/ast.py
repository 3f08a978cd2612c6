"""Data model of a parsed shell script."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from agent.records import frozen
from agent.security.shell.words import is_pattern, unquote_word

if TYPE_CHECKING:
    from agent.security.grammars.parser_process import SyntaxNode


@frozen
class Redirect:
    """Redirection of a command.

    `op` is the operator as written, without the file descriptor number (`2>&1` has `>&`). `target`
    is the file, the text of a here-string or the body of a heredoc, or None if the shell computes
    it. `source` is the source text of a file.
    """

    op: str
    target: str | None
    source: str = field(default="", compare=False, repr=False)


# Source text of a word that `xargs` adds; no readable script contains its control character.
ADDED_WORD = "$@\x01"


@frozen
class Command:
    """Simple command.

    `argv` contains the arguments that the program would receive; an argument is None if the shell
    computes it at run time, or if it is a program named by a pattern. `words` is the source text of
    each element. A redirection or an assignment without a program has an empty `argv`. `text` is
    the source of the whole command. `piped_from` is the previous command in a pipeline;
    `added_from` is the command whose output `xargs` adds (`ADDED_WORD`). Each is None if there is
    none or if it is not a simple command.
    """

    argv: tuple[str | None, ...]
    words: tuple[str, ...] = ()
    assignments: tuple[tuple[str, str | None], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    text: str = ""
    piped_from: "Command | None" = field(default=None, compare=False, repr=False)
    added_from: "Command | None" = field(default=None, compare=False, repr=False)

    @property
    def program(self) -> str | None:
        """Program name without its folder, normalized; None if it is computed or absent."""
        name = self.argv[0] if self.argv else None
        return None if name is None else name.rsplit("/", 1)[-1].casefold()


@frozen
class Pipeline:
    """Commands connected by `|`, and the operator before the first one: `&&`, `||` or `;`."""

    operator: str
    commands: tuple[Command, ...]


@frozen
class Script:
    """All commands of the script `text`, outer before inner.

    `pipelines` are its parts in order, or None unless it consists only of pipelines of simple
    commands connected by `&&`, `||`, `;` and line breaks. `opaque_reason` says briefly why part of
    it is not understood, or is None. `loop_values` maps the variable of each loop to the literal
    values that it takes. `assigned_names` contains the names of all variables that get a value from
    a loop, an expansion, an expression or a redirection.
    """

    text: str = ""
    commands: tuple[Command, ...] = ()
    pipelines: tuple[Pipeline, ...] | None = None
    opaque_reason: str | None = None
    loop_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    assigned_names: frozenset[str] = frozenset()


ARGUMENTS = frozenset(
    {"word", "string", "raw_string", "number", "concatenation", "ansi_c_string"}
    | {"translated_string", "simple_expansion", "expansion", "arithmetic_expansion"}
    | {"command_substitution", "process_substitution"}
)

REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})


def text_of(node: "SyntaxNode") -> str:
    return node.text.decode()


def command_from_node(
    node: "SyntaxNode | None",
    redirections: "Sequence[SyntaxNode]",
    text: str,
    *,
    has_dash: bool = False,
) -> Command:
    """Return the command of `node` with the redirections that follow it.

    Without a node, the command consists of redirections alone. `has_dash`: the source has an
    argument `-` between them, which the grammar skips.
    """
    words: list[str] = []
    assignments: list[tuple[str, str | None]] = []
    redirects: list[Redirect] = []
    for child in node.children if node else ():
        kind = child.type
        if kind == "variable_assignment" and not words:
            assignments.append(assignment(child))
        elif kind in REDIRECTS:
            words += _redirect(child, redirects)
        elif kind != "comment":
            words.append(text_of(child))
    if has_dash:
        words.append("-")
    for child in redirections:
        words += _redirect(child, redirects)
    argv = [unquote_word(word) for word in words]
    if words and is_pattern(words[0]):
        argv[0] = None if words[0] not in ("[", "[[") else words[0]
    return Command(tuple(argv), tuple(words), tuple(assignments), tuple(redirects), text)


def assignment(node: "SyntaxNode") -> tuple[str, str | None]:
    """Return the name and the value of `NAME=value`; the value of an array counts as computed."""
    name, _, value = text_of(node).partition("=")
    return name.partition("[")[0].removesuffix("+"), unquote_word(value)


def _redirect(node: "SyntaxNode", redirects: list[Redirect]) -> list[str]:
    """Add the redirections of `node` and return the words after the target, which are arguments."""
    if node.type == "heredoc_redirect":
        return _heredoc(node, redirects)
    op, words = "", []
    for child in node.children:
        if child.is_named and child.type != "file_descriptor":
            words.append(text_of(child))
        elif not op and child.type != "file_descriptor":
            op = child.type
    source = words[0] if words else ""
    redirects.append(Redirect(op, unquote_word(source) if words else None, source))
    return words[1:]


def heredoc_body(node: "SyntaxNode") -> tuple[str | None, bool]:
    """Return the text of a heredoc, None if computed, and whether its delimiter is quoted.

    Raises ValueError if a shell would end the text at another place than the grammar.
    """
    parts = {child.type: text_of(child) for child in node.children}
    start, body = parts.get("heredoc_start", ""), parts.get("heredoc_body", "")
    quoted = any(mark in start for mark in "'\"\\")
    delimiter, end = unquote_word(start), parts.get("heredoc_end", "")
    tabs = "<<-" in parts
    lines = [line.lstrip("\t") if tabs else line for line in body.split("\n")]
    if not delimiter or delimiter in lines or end.strip("\t" if tabs else "") != delimiter:
        raise ValueError("heredoc")
    if not quoted and any(mark in body for mark in "$`\\"):
        return None, quoted
    return "\n".join(lines), quoted


def _heredoc(node: "SyntaxNode", redirects: list[Redirect]) -> list[str]:
    words: list[str] = []
    for child in node.children:
        if child.type in REDIRECTS:
            words += _redirect(child, redirects)
        elif child.type in ARGUMENTS:
            words.append(text_of(child))
    with suppress(ValueError):
        redirects.append(Redirect("<<", heredoc_body(node)[0]))
    return words
