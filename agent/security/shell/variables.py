"""Variables that change which programs run, and the commands that set variables."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import takewhile

from agent.security.shell.ast import Command, Script
from agent.security.shell.path_scope import is_looped_text
from agent.security.shell.program_table import variables
from agent.security.shell.words import GLOB, TEXT_START, is_pattern, is_single

# Variable name at the start of an assignment or of an argument of a setter.
_NAME = re.compile(r"([A-Za-z_]\w*)(?:\[[^=]*\])?\+?(?:=|$)")

# Builtins that set variables named by their arguments.
_SETTERS = frozenset(
    {"read", "getopts", "unset", "export", "declare", "typeset", "readonly", "local"}
)

_LAST_JOB = ("$!", '"$!"')

# Unquoted words of a test that are always a number.
_TESTED_NUMBERS = frozenset({"$?", "$#", "$$", "$!"})

_MAX_OPTION_CHARS = 100

_Word = tuple[str | None, str]


@lru_cache(maxsize=1024)
def is_risky(name: str) -> bool:
    """Return whether a variable changes which programs run or what they load."""
    return any(
        name == risky
        or (risky[-1] == "*" and name.startswith(risky[:-1]))
        or (risky[0] == "*" and name.endswith(risky[1:]))
        for risky in variables()["risky"] | variables()["runs"]
    )


def may_set_risky(command: Command, script: Script) -> bool:
    """Return whether the arguments of a command may set or remove a risky variable.

    `test -v` counts, because it evaluates its operand as an expression, which may set one. A
    computed word, or a match of a file pattern, may be an option that sets any variable.
    """
    words = list(zip(command.argv[1:], command.words[1:], strict=True))
    match command.program:
        case "printf":
            return _printf_may_set_risky(words)
        case "test":
            return _test_may_evaluate(words, script)
        case "set":
            return any(_is_computed(word) for word in _before_end(words))
        case "wait":
            return any(
                _is_computed(word) for word in _before_end(words) if word[1] not in _LAST_JOB
            )
        case "env":
            return any(value is not None and _names_risky(value) for value, _ in words)
        case program if program in _SETTERS:
            return any(_setter_word_is_risky(value, source) for value, source in words)
        case _:
            return False


def _before_end(words: Iterable[_Word]) -> Iterator[_Word]:
    """Return the words that may be options."""
    return takewhile(lambda word: word[0] != "--", words)


def _is_computed(word: _Word) -> bool:
    value, source = word
    return value is None or is_pattern(source)


def _setter_word_is_risky(value: str | None, source: str) -> bool:
    name = (source if value is None else value).partition("=")[0]
    if is_pattern(source) and GLOB.search(name):
        # A file name may be the name of a variable.
        return True
    if value is None:
        match = _NAME.match(source)
        return match is None or is_risky(match[1])
    return _names_risky(value)


def _names_risky(word: str) -> bool:
    """Return whether a literal word, or the value attached to an option, names a risky variable."""
    if word[:1] not in ("-", "+"):
        match = _NAME.match(word)
        return match is not None and is_risky(match[1])
    if len(word) > _MAX_OPTION_CHARS:
        return True
    matches = (_NAME.match(word, at) for at in range(1, len(word)))
    return any(match is not None and is_risky(match[1]) for match in matches)


def _printf_may_set_risky(words: Iterable[_Word]) -> bool:
    follows_option = False
    for value, source in words:
        if value is None or is_pattern(source):
            return follows_option or TEXT_START.match(source) is None
        if follows_option:
            name, follows_option = value, False
        elif value.startswith("-v"):
            name, follows_option = value[2:], value == "-v"
        else:
            return False
        if _names_risky(name):
            return True
    return False


def _test_may_evaluate(words: Iterable[_Word], script: Script) -> bool:
    """Return whether words that the shell computes may be `-v` with an operand."""
    follows_computed = False
    for value, source in words:
        is_literal = value is not None and not is_pattern(source)
        if is_literal or is_looped_text(source, script):
            follows_computed = False
        elif source not in _TESTED_NUMBERS:
            if follows_computed or not is_single(source):
                return True
            follows_computed = True
    return False
