"""Shell script parser that finds every simple command of a line, at any nesting.

The line is parsed with tree-sitter's bash grammar. The grammar accepts more than a shell, and `sh`
is not always bash, so a script counts as opaque wherever they could disagree.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.security.shell.ast import (
    REDIRECTS,
    Command,
    Pipeline,
    Redirect,
    Script,
    assignment,
    command_from_node,
    heredoc_body,
    text_of,
)
from agent.security.shell.grammar import MAX_CHARS, ParsingBudget, syntax_tree, unreadable
from agent.security.shell.heredocs import reorder
from agent.security.shell.program_table import variables
from agent.security.shell.words import unquote_word
from agent.security.shell.wrappers import unwrap

if TYPE_CHECKING:
    from agent.security.grammars.parser_process import ParserProcess, SyntaxNode, SyntaxTree


MAX_NESTING = 50
KEYWORDS = frozenset(
    {"!", "{", "}", "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "for"}
    | {"in", "case", "esac", "select", "function", "coproc"}
)
SUBSTITUTES = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$\()")
EXPANSION = re.compile(
    r"\$\{#?(?:[A-Za-z_]\w*|[0-9@*#?$!-])(?:\[[@*0-9]+\])?"
    r"(?:(?:[#%/^,]|:?[-=+?]|:(?=[\s\d-]))[^'\"`\\{}]*)?\}"
)
ASSIGNERS = frozenset({"read", "mapfile", "readarray", "printf", "getopts"})
DECLARERS = frozenset({"export", "declare", "typeset", "readonly", "local"})
NAMES = re.compile(r"[A-Za-z_]\w*")
# A redirection that stores the number of its file descriptor in a variable: `{x}>file`.
STORES_DESCRIPTOR = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)(?:\[[^{}\s]*\])?\}[<>&]")
# A test of a variable whose name is not a plain literal; the shell evaluates its subscript.
TESTS_VARIABLE = re.compile(r"""(?<!\S)["']?-[vR]["']?\s+(?!\w+\s)""")
# Patterns for expansions and expressions that set variables, and for the names of these variables.
SETS = re.compile(r"\$\{([A-Za-z_]\w*)(?:\[[@*0-9]+\])?:?=(.*)\}", re.DOTALL)
CHANGES = re.compile(r"=|\+\+|--")
CHANGED = re.compile(r"(?<![\w$])(?<!\$\{)[A-Za-z_]\w*")
# Parts of an expression that do not come from a named variable.
COMPUTED = re.compile(r"\$(?![A-Za-z_])|`")
EVALUATES = re.compile(rb"\b(?:eval|sh|trap|env|xargs|alias)\b")
NUMBER = re.compile(r"-?\d+")
# An argument that the grammar skips in front of a heredoc.
DASH = re.compile(rb"[ \t]+-[ \t]+")
# Leaves that may contain the text of a substitution, and the marks of a substitution.
QUOTED = frozenset({"raw_string", "ansi_c_string", "heredoc_start", "$(", "`", "$(("})
SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
# Nodes that matter only for their children.
BARE = frozenset({"program", "pipeline", "list", "command_name", "string", "do_group"})
# Nodes and operators that only connect commands.
CONNECTIONS = frozenset({"program", "list", "pipeline", "redirected_statement"})
OPERATORS = frozenset({"&&", "||", ";", "|"})
# Nodes whose parts are separated by significant whitespace.
SPACED = frozenset({"string", "translated_string", "expansion", "heredoc_body", "regex"})
# Leaves that matter only if they could hide a substitution.
LEAVES = frozenset(
    {"word", "string_content", "variable_name", "raw_string", "heredoc_end", "heredoc_content"}
    | {"test_operator", "special_variable_name", "file_descriptor", '"', ";", "|", "&&", "||"}
)
# Nodes without whitespace between their parts, and nodes whose parts are on one line.
TIGHT = frozenset({"variable_assignment", "concatenation", "simple_expansion", "subscript"})
LINES = frozenset({"command", "declaration_command", "unset_command", "file_redirect"})


class ScriptVisitor:
    """Result of one parse.

    `scripts` are texts to parse in turn. `computes` contains the variables that are evaluated as
    expressions, `texts` the variables that may contain something other than a number, `sets` the
    variables whose value does not come from a command. `pipelines` is as in `Script`.
    """

    def __init__(self, text: str, budget: ParsingBudget) -> None:
        self.commands: list[Command] = []
        self.scripts: list[str] = []
        self.loops: dict[str, tuple[str, ...]] = {}
        self.opaque: str | None = None
        self.computes: set[str] = set()
        self.texts: set[str] = set()
        self.sets: set[str] = set()
        self.pipelines: tuple[Pipeline, ...] | None = None
        self._assigned: set[str] = set()
        self._dashed: set[SyntaxNode] = set()
        self._number_of: dict[SyntaxNode, int] = {}
        self._connected: list[SyntaxNode] = []
        self._source = text.encode()
        self.sets.update(STORES_DESCRIPTOR.findall(text.replace("\\\n", "")))
        tree = self._parse(budget)
        if tree is None:
            self.opaque = "it could not be parsed"
            return
        if tree.has_error:
            self.opaque = "it is not valid shell syntax"
        root = tree.root
        self._substitutes = b"`" in self._source or b"$(" in self._source
        self._walk(root)
        outside = self._source[: root.start_byte] + self._source[root.end_byte :]
        if outside.strip():
            self._doubt("part of it could not be read")
        for name in self._assigned & self.loops.keys():
            del self.loops[name]
        for node in self._connected:
            pipelines = self._connect(node)
            if node is root:
                self.pipelines = pipelines

    def _parse(self, budget: ParsingBudget) -> "SyntaxTree | None":
        tree = syntax_tree(self._source, budget)
        if tree is not None and not tree.has_error:
            return tree
        reordered = reorder(self._source)
        again = None if reordered is None else syntax_tree(reordered.source, budget)
        if reordered is None or again is None or not reordered.is_confirmed(again):
            return tree
        self._source = reordered.source
        return again

    def _walk(self, root: "SyntaxNode") -> None:
        stack = [(root, 0)]
        skipped = frozenset() if self._substitutes else LEAVES
        while stack:
            node, depth = stack.pop()
            kind = node.type
            if kind in skipped:
                continue
            if kind in CONNECTIONS and node.parent_type not in CONNECTIONS:
                self._connected.append(node)
            if kind in SUBSTITUTIONS:
                depth += 1
                if depth > MAX_NESTING:
                    self._doubt("it is nested too deeply")
                    continue
                if self._source[node.start_byte : node.end_byte].lstrip().startswith(b"`"):
                    self._backticks(node)
                    continue
            for child in reversed(self._visit(node, kind)):
                stack.append((child, depth))

    def _visit(self, node: "SyntaxNode", kind: str) -> "list[SyntaxNode]":
        """Record `node` and return the child nodes still to visit."""
        children = node.children
        if not children:
            self._leaf(node, kind)
            return children
        if kind not in SPACED:
            self._check_gaps(node, children, kind)
        if kind in BARE:
            return children
        match kind:
            case "command" | "declaration_command" | "unset_command":
                self._command(node, ())
                return self._below(children)
            case "redirected_statement":
                return self._visit_redirected(node, children)
            case "file_redirect" | "heredoc_redirect" | "herestring_redirect":
                self._command(None, [node], node)
                return self._redirection(node)
            case "test_command" | "compound_statement":
                self._visit_brackets(node, children)
            case "function_definition":
                # This runs no program, but it may redefine commands that come later.
                self.commands.append(Command(("function",), ("function",), text=text_of(node)))
            case "for_statement":
                self._loop(node)
            case "expansion" | "arithmetic_expansion" | "c_style_for_statement" | "subscript":
                self._expansion(node, kind)
            case "variable_assignment":
                self._assignment(node)
        return children

    def _doubt(self, reason: str) -> None:
        self.opaque = self.opaque or reason

    def _check_gaps(self, node: "SyntaxNode", children: "Sequence[SyntaxNode]", kind: str) -> None:
        """Mark the script as opaque if the grammar skipped anything but whitespace."""
        at = node.start_byte
        for child in children:
            start = child.start_byte
            if start > at:
                gap = self._source[at:start]
                if gap != b" " or kind in TIGHT:
                    gap = gap.replace(b"\\\n", b"")
                    command = _command_before(node, child) if DASH.fullmatch(gap) else None
                    if command is not None:
                        self._dashed.add(command)
                    elif not gap.isspace() or kind in TIGHT or (kind in LINES and b"\n" in gap):
                        self._doubt("part of it could not be read")
            at = child.end_byte

    def _leaf(self, node: "SyntaxNode", kind: str) -> None:
        if kind == "comment":
            before = self._source[: node.start_byte]
            if (before and before[-1:] not in b" \t\n;&|()") or before.endswith(b"\\\n"):
                self._doubt("shells disagree about where a comment starts")
        elif kind == "ansi_c_string" and self._is_ambiguous(text_of(node)):
            self._doubt("shells disagree about a quote")
        elif self._substitutes and kind not in QUOTED and SUBSTITUTES.search(text_of(node)):
            self._doubt("part of it could not be read")

    def _is_ambiguous(self, quoted: str) -> bool:
        """Return whether a shell without $'..' could run something different.

        Without it, the string ends at an escaped quote, and `eval` expands the dollar sign as a
        variable.
        """
        return "\\'" in quoted or EVALUATES.search(self._source) is not None

    def _command(
        self,
        node: "SyntaxNode | None",
        redirections: "Sequence[SyntaxNode]",
        statement: "SyntaxNode | None" = None,
    ) -> None:
        """Record a command; `statement` is the node that includes its redirections."""
        whole = statement or node
        text = text_of(whole) if whole else ""
        has_dash = node in self._dashed
        command = command_from_node(node, redirections, text, has_dash=has_dash)
        if node is not None and whole is not None:
            self._number_of[whole] = len(self.commands)
        self.commands.append(command)
        for name, value in command.assignments:
            self._assigns(name, value)
        if not command.argv:
            return
        program = command.argv[0]
        if program is None:
            self._doubt("it computes the name of a program when it runs")
        elif program in KEYWORDS:
            self._doubt("it has a keyword in place of a program")
        elif not ASSIGNERS.isdisjoint(command.argv[:3]):
            for word in command.argv[1:]:
                self._assigns(word or "", None)
        elif program in DECLARERS:
            for word in command.argv[1:]:
                name, _, value = (word or "").partition("=")
                self._assigns(name.removesuffix("+"), value)
        if command.words[1:] and any(r.op.startswith("&>") for r in command.redirects):
            # In a shell without `&>`, the command ends here and another begins.
            self.scripts.append(" ".join(command.words[1:]))

    def _visit_redirected(
        self, node: "SyntaxNode", children: "list[SyntaxNode]"
    ) -> "list[SyntaxNode]":
        redirections = [child for child in children if child.type in REDIRECTS]
        body = children[0]
        below = self._below(redirections)
        if body.type in ("command", "declaration_command"):
            self._check_gaps(body, body.children, body.type)
            self._command(body, redirections, node)
            return self._below(body.children) + below
        self._command(None, redirections, node)
        if self.commands[-1].argv:
            self._doubt("part of it could not be read")
        return ([] if body.type in REDIRECTS else [body]) + below

    def _connect(self, root: "SyntaxNode") -> tuple[Pipeline, ...] | None:
        """Record which commands of a pipeline read from which; return `Script.pipelines`."""
        pipelines: list[tuple[str, list[Command]]] = []
        # None after a command, "" after anything that is neither a command nor an operator.
        operator: str | None = ";"
        is_plain, last = True, 0
        for part in self._parts(root):
            number = self._number_of.get(part)
            if number is not None:
                command = self.commands[number]
                if operator == "|":
                    command = replace(command, piped_from=pipelines[-1][1][-1])
                    self.commands[number] = command
                    pipelines[-1][1].append(command)
                else:
                    # A line break has no node.
                    pipelines.append((operator or ";", [command]))
                last, operator = number, None
            elif part.type in REDIRECTS and operator is None:
                command = command_from_node(None, [part], text_of(part))
                is_plain = is_plain and not command.argv
                pipelines[-1][1][-1] = replace(
                    pipelines[-1][1][-1],
                    redirects=(*pipelines[-1][1][-1].redirects, *command.redirects),
                )
                if any(redirect.op.startswith("<") for redirect in command.redirects):
                    self.commands[last] = replace(self.commands[last], piped_from=None)
            else:
                is_operator = part.type in OPERATORS and operator is None
                is_plain = is_plain and is_operator
                operator = part.type if is_operator else ""
        if not is_plain or operator is not None:
            return None
        return tuple(Pipeline(operator, tuple(commands)) for operator, commands in pipelines)

    def _parts(self, root: "SyntaxNode") -> "Iterator[SyntaxNode]":
        """Yield the commands, operators and redirections of connected commands in order.

        The grammar puts the last redirection of a list, and a pipe after it, around the whole list.
        """
        stack = [root]
        while stack:
            node = stack.pop()
            if node.type in CONNECTIONS and node not in self._number_of:
                stack += reversed(node.children)
            else:
                yield node

    def _below(self, nodes: "Sequence[SyntaxNode]") -> "list[SyntaxNode]":
        """Return the nodes to visit once the redirections among `nodes` are recorded."""
        below: list[SyntaxNode] = []
        for node in nodes:
            below += self._redirection(node) if node.type in REDIRECTS else [node]
        return below

    def _redirection(self, node: "SyntaxNode") -> "list[SyntaxNode]":
        self._check_gaps(node, node.children, node.type)
        return self._heredoc(node) if node.type == "heredoc_redirect" else node.children

    def _heredoc(self, node: "SyntaxNode") -> "list[SyntaxNode]":
        quoted = False
        try:
            quoted = heredoc_body(node)[1]
        except ValueError:
            self._doubt("shells disagree about the end of a heredoc")
        below = self._below(node.children)
        return [child for child in below if not (quoted and child.type == "heredoc_body")]

    def _visit_brackets(self, node: "SyntaxNode", children: "list[SyntaxNode]") -> None:
        first = children[0].type
        if first in ("[", "[["):
            self.commands.append(Command((first, None), (first, ""), text=text_of(node)))
        inner = text_of(node)[1:-1]
        if first == "[" and any(mark in inner for mark in "$`*?["):
            # The same words as a simple command: an operator may be computed, too.
            self.scripts.append(f"test {inner}")
        if first == "[" and TESTS_VARIABLE.search(text_of(node)):
            self._doubt("it evaluates text as an expression")
        if first in ("[[", "(("):
            self._compute(node)
            inner = text_of(node)[2:-2]
            if any(mark in inner for mark in "&|;<>()\n") or first == "((":
                # A shell without these brackets runs their contents as commands.
                self.scripts.append(inner)

    def _expansion(self, node: "SyntaxNode", kind: str) -> None:
        if kind != "expansion":
            self._compute(node)
        elif not EXPANSION.fullmatch(text_of(node)):
            self._doubt("an expansion in it is too complex")
        elif sets := SETS.fullmatch(text_of(node)):
            self.sets.add(sets[1])
            self._assigns(sets[1], sets[2])

    def _compute(self, node: "SyntaxNode") -> None:
        text = text_of(node)
        self.computes.update(NAMES.findall(text))
        if CHANGES.search(text):
            names = CHANGED.findall(text)
            self.sets.update(names)
            self._assigned.update(names)
        if COMPUTED.search(text, 3):
            self._doubt("it evaluates text as an expression")

    def _assigns(self, name: str, value: str | None) -> None:
        self._assigned.add(name)
        if name in variables()["runs"]:
            self._doubt("it sets a variable that controls the shell")
        if value is None or not NUMBER.fullmatch(value):
            self.texts.add(name)

    def _loop(self, node: "SyntaxNode") -> None:
        name = next(iter(node.children_by_field_name("variable")), None)
        values = [unquote_word(text_of(child)) for child in node.children_by_field_name("value")]
        literals = tuple(value for value in values if value is not None)
        if name is not None:
            self.sets.add(text_of(name))
        if name is not None and values and len(literals) == len(values):
            key = text_of(name)
            self.loops[key] = literals + self.loops.get(key, ())
            if not all(map(NUMBER.fullmatch, literals)):
                self.texts.add(key)
        elif name is not None:
            self._assigns(text_of(name), None)

    def _assignment(self, node: "SyntaxNode") -> None:
        """Record an assignment outside a command: `a=1` alone, or within `export`."""
        if node.parent_type != "command":
            name, value = assignment(node)
            self.commands.append(Command((), (), ((name, value),), (), text_of(node)))
            self._assigns(name, value)

    def _backticks(self, node: "SyntaxNode") -> None:
        inner = text_of(node).strip()[1:-1]
        self.scripts.append(re.sub(r"\\([`$\\\"])", r"\1", inner))


def _command_before(node: "SyntaxNode", child: "SyntaxNode") -> "SyntaxNode | None":
    """Return the command whose first redirection is `child`.

    The grammar skips an argument `-` in front of it.
    """
    is_first = node.type == "redirected_statement" and child in node.children[1:2]
    if not is_first or child.type not in REDIRECTS:
        return None
    body = node.children[0]
    while body.type in ("list", "pipeline"):
        body = body.children[-1]
    return body if body.type == "command" else None


__all__ = ["Command", "Redirect", "Script", "parse_script"]

MAX_SCRIPTS = 200
MAX_DEPTH = 8
# Ordinary lines need a thousandth of this time; only crafted lines exceed it.
MAX_PARSE_S = 0.1


def parse_script(command: str, parser: "ParserProcess | None" = None) -> Script:
    """Return every simple command that `command` would run, as far as can be determined.

    Never raises. Follows lists, pipelines, groups, loops, functions, substitutions, heredocs, and
    programs that run other programs (`env`, `xargs`, `find -exec`, `sh -c`, `eval`).
    `opaque_reason` says why part of the script is unknown. `parser` is used instead of the process
    that parses commands for their judgement.
    """
    commands: list[Command] = []
    loops: dict[str, tuple[str, ...]] = {}
    opaque: str | None = None
    pending = [(command, 0)]
    computes: set[str] = set()
    texts: set[str] = set()
    sets: set[str] = set()
    pipelines: tuple[Pipeline, ...] | None = None
    scripts = 0
    budget = ParsingBudget(MAX_PARSE_S, parser)
    while pending:
        text, depth = pending.pop()
        scripts += 1
        is_late = budget.left_s < 0
        if is_late or depth > MAX_DEPTH or scripts > MAX_SCRIPTS or len(text) > MAX_CHARS:
            opaque = opaque or "it is too long or nested too deeply"
            continue
        if reason := unreadable(text):
            opaque = opaque or reason
            continue
        reading = ScriptVisitor(text, budget)
        opaque = opaque or reading.opaque
        pipelines = reading.pipelines if scripts == 1 else pipelines
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
    with_program = [command for command in commands if command.argv or command.assignments]
    if pipelines is not None and sum(len(pipeline.commands) for pipeline in pipelines) != len(
        with_program
    ):
        # Some commands are nested, for example in a substitution.
        pipelines = None
    return Script(command, tuple(commands), pipelines, opaque, loops, frozenset(sets))
