"""Finds blocked commands in a shell line.

This is a seat belt against slips, not a wall: a variable, an encoded script or another program
can always do what a blocked word does. The walls are the policy, the sandbox and the approval.
"""

import itertools
import re
import shlex
from collections.abc import Collection, Iterator

SEPARATORS = frozenset("();&|\n")
REDIRECTS = frozenset({">", ">>", "<", "<<", "<<<", ">&", "<&", ">|", "<>"})
KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "time", "coproc"}
)
# Programs that run the program named by their arguments.
WRAPPERS = frozenset(
    {
        "sudo",
        "doas",
        "env",
        "xargs",
        "nohup",
        "time",
        "exec",
        "command",
        "builtin",
        "nice",
        "ionice",
        "setsid",
        "timeout",
        "stdbuf",
        "busybox",
        "toybox",
        "watch",
        "parallel",
        "flock",
        "strace",
        "chroot",
        "unshare",
        "setpriv",
        "chrt",
        "taskset",
    }
)
# Programs that take a whole command line as an argument.
SHELLS = frozenset(
    {
        "sh",
        "bash",
        "dash",
        "zsh",
        "ksh",
        "ash",
        "fish",
        "su",
        "ssh",
        "script",
        "trap",
        "eval",
        "alias",
        "env",
        "watch",
    }
)
FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
DYNAMIC = re.compile(r"[$`*?\[{]")
MAX_DEPTH = 8
# Longer lines are not parsed: whoever writes them must not keep everybody else waiting.
LIMIT_CHARS = 10_000


def blocked_word(command: str, blocked: Collection[str]) -> str | None:
    """The first blocked word that `command` would run, or None.

    Splits at `; && || | &`, new lines, parentheses and substitutions; looks through assignments,
    wrappers such as `env` and `xargs`, `find -exec`, and strings given to a shell. Where the
    line is too long or cannot be parsed, or a program's name is computed, any occurrence of a
    blocked word counts.
    """
    words = frozenset(word.casefold() for word in blocked)
    return _search(command, words, 0) if words else None


def _search(command: str, words: frozenset[str], depth: int) -> str | None:
    command = command.replace("\\\n", "")
    if depth > MAX_DEPTH or len(command) > LIMIT_CHARS:
        return _anywhere(command, words)
    try:
        tokens = list(_tokens(command))
    except ValueError:
        return _anywhere(command, words)
    simples = list(_simple_commands(tokens))
    for simple in simples:
        if found := _in_simple(simple, words, depth) or _in_substitutions(simple, words, depth):
            return found
    return _anywhere(command, words) if any(map(_computed, simples)) else None


def _tokens(command: str) -> Iterator[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    yield from lexer


def _simple_commands(tokens: list[str]) -> Iterator[list[str]]:
    """Token lists of the simple commands, without redirections, keywords and assignments.

    Assignments are kept as the first element's prefix only when they hold a substitution.
    """
    simple: list[str] = []
    skip = False
    for i, token in enumerate(tokens):
        if token and set(token) <= SEPARATORS | {"<", ">"}:
            skip = token[-1] in "<>" or token in REDIRECTS
            if token not in REDIRECTS:
                yield simple
                simple = []
            continue
        following = tokens[i + 1] if i + 1 < len(tokens) else ""
        descriptor = token.isdigit() and following[:1] in ("<", ">") and following != ""
        if not simple and token in KEYWORDS:
            pass
        elif skip or descriptor:
            # A redirection's target runs nothing by itself, unless it holds a substitution.
            if _substitutes(token):
                yield [":", token]
        else:
            simple.append(token)
        skip = False
    yield simple


def _in_simple(simple: list[str], words: frozenset[str], depth: int) -> str | None:
    rest = list(simple)
    searched = False
    while rest and ASSIGNMENT.match(rest[0]):
        rest.pop(0)
    while rest:
        name = _program(rest[0])
        if name in words:
            return name
        if name in SHELLS and not searched:
            # All that follows is searched at once, also what a second `env` would be given.
            searched = True
            if found := _in_scripts(name, rest[1:], words, depth):
                return found
        if name == "find" and (found := _in_find(rest, words)):
            return found
        if name not in WRAPPERS and name not in KEYWORDS:
            return None
        rest = rest[1:]
        if rest and rest[0].startswith("-"):
            # Which options take a value differs by program: every later word may be the program.
            return next((_program(w) for w in rest if _program(w) in words), None)
        while rest and _skippable(rest[0]):
            rest.pop(0)
    return None


def _in_scripts(name: str, args: list[str], words: frozenset[str], depth: int) -> str | None:
    if name == "eval":
        return _search(" ".join(args), words, depth + 1)
    scripts = (arg.partition("=")[2] if name == "alias" else arg for arg in args)
    found = (_search(script, words, depth + 1) for script in scripts if script)
    return next((word for word in found if word), None)


def _in_find(args: list[str], words: frozenset[str]) -> str | None:
    pairs = itertools.pairwise(args)
    return next((_program(b) for a, b in pairs if a in FIND_ACTIONS and _program(b) in words), None)


def _in_substitutions(simple: list[str], words: frozenset[str], depth: int) -> str | None:
    for token in simple:
        if _substitutes(token):
            inner = re.sub(r"\$\(|[<>]\(|[()`]", "\n", token)
            # What stands before the first substitution is text, not a command.
            if found := _search(inner.partition("\n")[2], words, depth + 1):
                return found
    return None


def _substitutes(token: str) -> bool:
    return "`" in token or "$(" in token or "<(" in token or ">(" in token


def _computed(simple: list[str]) -> bool:
    program = next((t for t in simple if not ASSIGNMENT.match(t) and not _wrapper(t)), "")
    return bool(DYNAMIC.search(program))


def _wrapper(token: str) -> bool:
    return _program(token) in WRAPPERS or token.startswith("-") or token in KEYWORDS


def _skippable(token: str) -> bool:
    """What may stand between a wrapper and its program: assignments, durations, numbers."""
    return bool(ASSIGNMENT.match(token) or re.fullmatch(r"[\d.]+[smhd]?", token))


def _program(token: str) -> str:
    return token.rsplit("/", 1)[-1].casefold()


def _anywhere(command: str, words: frozenset[str]) -> str | None:
    pattern = r"(?<![a-z0-9_])(" + "|".join(map(re.escape, sorted(words))) + r")(?![a-z0-9_])"
    # Quotes and backslashes inside a word do not change what the shell runs.
    match = re.search(pattern, re.sub(r"[\\'\"]", "", command.casefold()))
    return match.group(1) if match else None
