"""Detection of commands that print only names of files below the folders that they search."""

from collections.abc import Iterator, Sequence

from agent.security.shell.ast import Command
from agent.security.shell.program_table import name_lists

# Filters before a command that reads names.
_MAX_FILTERS = 8


def prints_names(command: Command | None) -> bool:
    """Return whether each line that `command` prints is the name of a file in its folders.

    It may also filter the lines of such a command. Its arguments are judged elsewhere.
    """
    for _ in range(_MAX_FILTERS):
        if command is None or not _prints_to_pipe(command):
            return False
        if _is_filter(command):
            command = command.piped_from
            continue
        return _lists_names(command)
    return False


def _prints_to_pipe(command: Command) -> bool:
    """Return whether only the standard output of the command, unchanged, reaches the pipe."""
    return not command.assignments and all(
        redirect.op == ">" and redirect.target == "/dev/null" for redirect in command.redirects
    )


def _lists_names(command: Command) -> bool:
    table = name_lists()
    for words, options in table.lists.items():
        if command.argv[: len(words)] == words:
            return all(word is not None and _is_listed(word, options) for word in command.argv)
    return False


def _is_listed(word: str, options: Sequence[str]) -> bool:
    name, glued, _ = word.partition("=")
    return word[:1] != "-" or word in options or (bool(glued) and f"{name}=" in options)


def _is_filter(command: Command) -> bool:
    """Return whether the command prints some lines of its input, with nothing added or cut."""
    name = command.argv[0] if command.argv else None
    rule = name_lists().filters.get(name) if name is not None else None
    if rule is None:
        return False
    arguments = 0
    words: Iterator[str | None] = iter(command.argv[1:])
    for word in words:
        if word is None:
            return False
        if word == "-n" and rule.takes_count:
            if not (next(words, None) or "").isdecimal():
                return False
        elif word[:1] != "-":
            arguments += 1
        elif not (rule.takes_count and word[1:].isdecimal()) and not (
            len(word) > 1 and set(word[1:]) <= rule.letters
        ):
            return False
    return arguments == rule.arguments
