"""Commands that people type in a chat; the same on every channel."""

import re

from agent.text.similar_names import similar_names
from gateway.commands.declaration import ChatCommand
from gateway.commands.table import COMMANDS, UNLISTED
from gateway.core.messages import InboundMessage
from gateway.core.records import MenuCommand, TypedCommand

MISTYPED = UNLISTED[""]

# High enough that a folder such as /home does not count as a typing error of /mode.
_CLOSE = 0.75
_MIN_SUGGESTION_CHARS = 3
# Excludes paths, which have another slash or a dot.
_WORD = re.compile(r"/(\w[\w-]{0,39})(?:@\w+)?")
_BY_WORD = {
    word: command
    for command in (*COMMANDS.values(), *UNLISTED.values())
    for word in (command.name, *command.aliases)
    if word
}


def command_of(message: InboundMessage) -> str | None:
    """Return the name of the command in a message; None when the message is for the model.

    Only the sender's own words form a command. For any other single word with a slash, return "",
    which `MISTYPED` answers.
    """
    if (
        message.forwarded
        or message.task is not None
        or message.job is not None
        or message.is_report
        or message.is_for_goal
    ):
        return None
    return command_name(message.content)


def command_name(text: str) -> str | None:
    """Return the name of the command in the words of a person, as `command_of` does."""
    word = next(iter(text.split(maxsplit=1)), "")
    if not word.startswith("/"):
        return None
    name = word[1:].partition("@")[0].lower()
    if (command := find_command(name)) is not None:
        return command.name
    return "" if is_single_word(text) else None


def argument_of(message: InboundMessage) -> str:
    """Return the text after the command."""
    return _words(message)[1]


def read_command(message: InboundMessage) -> TypedCommand | None:
    """Read the message as a command; None when it is for the model."""
    name = command_of(message)
    if name is None:
        return None
    command = command_named(name)
    return TypedCommand(
        name, argument_of(message), command.at_once, has_buttons=command.choices is not None
    )


def is_command(message: InboundMessage) -> bool:
    return command_of(message) is not None


def is_at_once(message: InboundMessage) -> bool:
    """Return whether the message is a command that is answered while a turn runs."""
    name = command_of(message)
    return name is not None and command_named(name).at_once


def command_named(name: str) -> ChatCommand:
    """Return the command for a name that `command_of` returned."""
    return find_command(name) or MISTYPED


def find_command(word: str) -> ChatCommand | None:
    """Return the command with this name or alias; None when there is none."""
    return _BY_WORD.get(word)


def is_single_word(text: str) -> bool:
    """Return whether a message is one word that looks like a command."""
    return _WORD.fullmatch(text.strip()) is not None


def command_in(text: str) -> ChatCommand | None:
    """Return the command for a line; None when it is for the model."""
    name = command_name(text)
    return None if name is None else command_named(name)


def suggest(text: str) -> str | None:
    """Return the command name closest to a single word with a slash, without asking the model."""
    match = _WORD.fullmatch(text.strip())
    if match is None or len(match[1]) < _MIN_SUGGESTION_CHARS:
        return None
    # Commands without a group are sent by programs.
    grouped = [command for command in COMMANDS.values() if command.group is not None]
    names = [word for command in grouped for word in (command.name, *command.aliases)]
    return next(iter(similar_names(match[1].lower(), names, cutoff=_CLOSE)), None)


def menu() -> tuple[MenuCommand, ...]:
    """Return the listed commands."""
    return tuple(
        MenuCommand(command.name, command.summary, command.audience)
        for command in COMMANDS.values()
    )


def _words(message: InboundMessage) -> tuple[str, str]:
    """Return the first word and the text after it."""
    first, *rest = message.content.split(maxsplit=1) or [""]
    return first, rest[0].strip() if rest else ""
