"""Resolution of programs that run other programs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.security.shell.ast import ADDED_WORD, Command
from agent.security.shell.program_table import wrappers

MAX_CHAIN = 16
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
STDIN = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
LONG_VALUES = frozenset({"--rcfile", "--init-file"})
# Long options of xargs that end the replacement of a string.
_LIMITS = ("--max-args", "--max-lines")


@dataclass(slots=True)
class WrappedCommand:
    """Commands with their arguments and scripts as text that a command runs in turn."""

    commands: list[Command] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)


# Strings that `env -S` splits as a shell would.
PLAIN_STRING = re.compile(r"[\w ./,:=@%+-]*")


class UnresolvableWrapper(Exception):
    """Error for a wrapper whose command is unknown; the argument is the reason."""


def unwrap(command: Command) -> tuple[WrappedCommand, str | None]:
    """Return everything that `command` runs according to the table, and why part may be unknown."""
    nested = WrappedCommand()
    pending = [command]
    try:
        while pending:
            current = pending.pop()
            inner = _step(current, nested)
            if len(nested.commands) + len(inner) > MAX_CHAIN:
                return nested, "it is nested too deeply"
            nested.commands += inner
            pending += inner
    except UnresolvableWrapper as exc:
        return nested, str(exc)
    return nested, None


def _step(command: Command, nested: WrappedCommand) -> list[Command]:
    name = command.program
    spec = wrappers().get(name) if name else None
    if spec is None:
        return []
    match spec["kind"]:
        case "shell":
            return _shell(command, nested)
        case "find":
            return _find(command)
        case "words":
            _script(" ".join(_literal_words(command.argv[1:])), nested)
            return []
        case "alias":
            for word in _literal_words(command.argv[1:]):
                _script(word.partition("=")[2], nested)
            return []
        case _:
            return _prefix(command, spec, nested)


def _prefix(command: Command, spec: Mapping[str, Any], nested: WrappedCommand) -> list[Command]:
    argv, at = command.argv, 1
    assignments = list(command.assignments)
    values: dict[str, str | None] = {}
    while at < len(argv):
        word = argv[at]
        if word is None:
            raise UnresolvableWrapper("it computes an option when it runs")
        if word == "--":
            at += 1
            break
        if word in spec.get("stops", ()):
            return []
        if "splits" in spec and (split_result := _split_string(word, argv[at + 1 :])):
            inner_words, used = split_result
            # The string contains more words of the same wrapper, which precede the others.
            inner = (argv[0], *inner_words, *argv[at + used :])
            words = (command.words[0], *inner_words, *command.words[at + used :])
            return [Command(inner, words, tuple(assignments), (), command.text)]
        if word[:1] in ("-", "+") and len(word) > 1:
            at += _option(word, argv[at + 1 :], spec, nested, values)
        elif spec.get("assigns") and (match := ASSIGNMENT.fullmatch(word)):
            assignments.append((match[1], match[2]))
            at += 1
        else:
            break
    at += spec.get("skip", 0)
    if at >= len(argv):
        return []
    rest = replace(command, argv=argv[at:], words=command.words[at:], redirects=())
    rest = replace(rest, assignments=tuple(assignments), piped_from=None)
    if spec.get("appends"):
        rest = _with_added_words(command, rest, values)
    return _wrapped(rest, spec, nested)


def _wrapped(inner: Command, spec: Mapping[str, Any], nested: WrappedCommand) -> list[Command]:
    """Return the command after the options of a wrapper, unless it is a script."""
    name, *rest = inner.argv
    if name == "-c" and "c" in spec.get("scripts", ""):
        _script(rest[0] if rest else "", nested)
        return []
    if spec.get("joins"):
        _script(" ".join(_literal_words(inner.argv)), nested)
        return []
    if name is None:
        raise UnresolvableWrapper("it computes the name of a program when it runs")
    return [inner]


def _with_added_words(
    command: Command, inner: Command, values: Mapping[str, str | None]
) -> Command:
    """Return the command that `xargs` runs, with the words that it adds or fills in.

    Raises `UnresolvableWrapper`.
    """
    # A redirection of the input replaces the pipe.
    is_redirected = any(redirect.op.startswith("<") for redirect in command.redirects)
    inner = replace(inner, added_from=None if is_redirected else command.piped_from)
    marks = [values[name] for name in ("I", "i", "--replace") if name in values]
    if not marks:
        return replace(inner, argv=(*inner.argv, None), words=(*inner.words, ADDED_WORD))
    mark = "{}" if marks[0] == "" and "I" not in values else marks[0]
    # Of options that exclude each other, the last one counts.
    if not mark or len(marks) > 1 or not values.keys().isdisjoint(("n", "L", *_LIMITS)):
        raise UnresolvableWrapper("the words that xargs adds are unclear")
    argv = tuple(None if word is None or mark in word else word for word in inner.argv)
    pairs = zip(inner.argv, inner.words, strict=True)
    words = tuple(ADDED_WORD if word == mark else source for word, source in pairs)
    return replace(inner, argv=argv, words=words)


def _option(
    word: str,
    following: Sequence[str | None],
    spec: Mapping[str, Any],
    nested: WrappedCommand,
    options: dict[str, str | None],
) -> int:
    """Return the number of words that the option takes, including itself.

    Adds the option, or each of a bundle, with its value to `options`.
    """
    name, glued, value = word.partition("=")
    if not word.startswith("--"):
        letters, flags, values = word[1:], spec.get("flags", ""), spec.get("values", "")
        for i, letter in enumerate(letters):
            if letter in values:
                last = i == len(letters) - 1
                options[letter] = (following[0] if following else "") if last else letters[i + 1 :]
                if letter in spec.get("scripts", ""):
                    _script(following[0] if last and following else letters[i + 1 :], nested)
                return 2 if last else 1
            if letter not in flags and not (letter.isdigit() and (i or "numbers" in spec)):
                break
            options[letter] = ""
        else:
            return 1
    elif name in spec.get("long_flags", ()):
        # Their values are optional, so they never take the next word.
        options[name] = value
        return 1
    elif name in spec.get("long_values", ()):
        options[name] = value if glued else following[0] if following else ""
        if name in spec.get("long_scripts", ()):
            _script(value if glued else following[0] if following else "", nested)
        return 1 if glued else 2
    raise UnresolvableWrapper(f"{spec['name']} has an unknown option")


def _split_string(word: str, following: Sequence[str | None]) -> tuple[list[str], int] | None:
    """Return the words in the string of `env -S` and the number of words used, or None."""
    name, glued, value = word.partition("=")
    if name != "--split-string":
        if word[:2] == "--" or word[:1] != "-" or "S" not in word:
            return None
        name, _, value = word.partition("S")
        glued = value
        if not set(name[1:]) <= set("i0v"):
            raise UnresolvableWrapper("env has an unknown option")
    text = value if glued else following[0] if following else None
    if text is None or not PLAIN_STRING.fullmatch(text):
        raise UnresolvableWrapper("the command that env runs is unclear")
    return text.split(), 1 if glued else 2


def _shell(command: Command, nested: WrappedCommand) -> list[Command]:
    argv, at, takes_script = command.argv, 1, False
    while at < len(argv):
        word = argv[at]
        if word is None:
            raise UnresolvableWrapper("it computes the commands of a shell when it runs")
        if word in ("--", "-"):
            at += 1
            break
        if word[:1] not in ("-", "+"):
            break
        at += 2 if word in LONG_VALUES or (word[1:2] != "-" and word[-1] in "oO") else 1
        takes_script = takes_script or (word[1:2] != "-" and "c" in word)
        takes_script = takes_script or word in ("--command", "--init-command")
    if takes_script:
        _script(argv[at] if at < len(argv) else "", nested)
    elif at >= len(argv) or argv[at] in STDIN or "-s" in argv:
        fed = [r.target for r in command.redirects if r.op in ("<<", "<<<")]
        if len(fed) != 1:
            raise UnresolvableWrapper("a shell in it reads its commands from another source")
        _script(fed[0], nested)
    return []


def _find(command: Command) -> list[Command]:
    commands: list[Command] = []
    argv = command.argv
    for at, word in enumerate(argv):
        if word in FIND_ACTIONS and at + 1 < len(argv):
            end = next((i for i in range(at + 1, len(argv)) if argv[i] in (";", "+")), len(argv))
            if argv[at + 1] is None:
                raise UnresolvableWrapper("it computes the name of a program when it runs")
            inner = argv[at + 1 : end], command.words[at + 1 : end]
            commands.append(Command(*inner, command.assignments, (), command.text))
    return commands


def _literal_words(words: Sequence[str | None]) -> list[str]:
    literals = [word for word in words if word is not None]
    if len(literals) != len(words):
        raise UnresolvableWrapper("it computes the commands of a shell when it runs")
    return literals


def _script(text: str | None, nested: WrappedCommand) -> None:
    if text is None:
        raise UnresolvableWrapper("it computes the commands of a shell when it runs")
    nested.scripts.append(text)
