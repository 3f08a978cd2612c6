"""Suggestions for mistyped commands, computed without the model."""

import re
from typing import TYPE_CHECKING

from agent.i18n import t
from gateway.commands import MISTYPED, find_command
from gateway.commands.declaration import ChatCommand, chat_command
from gateway.commands.table import COMMANDS
from gateway.store.port import Transaction

if TYPE_CHECKING:
    from gateway.commands.dispatcher import CommandCall

# High enough that a folder such as /home does not count as a typing error of /mode.
_CLOSE = 0.75
# Excludes paths, which have another slash or a dot.
_WORD = re.compile(r"/(\w[\w-]{0,39})(?:@\w+)?")
_SHORTEST_CHARS = 3


def is_single_word(text: str) -> bool:
    """Return whether a message is one word that looks like a command."""
    return _WORD.fullmatch(text.strip()) is not None


def suggest(text: str) -> str | None:
    """Return the command name closest to a single word with a slash."""
    match = _WORD.fullmatch(text.strip())
    if match is None or len(match[1]) < _SHORTEST_CHARS:
        return None
    from difflib import get_close_matches

    # Commands without a group are sent by programs.
    grouped = [command for command in COMMANDS.values() if command.group is not None]
    names = [word for command in grouped for word in (command.name, *command.aliases)]
    return next(iter(get_close_matches(match[1].lower(), names, 1, _CLOSE)), None)


def command_in(text: str) -> ChatCommand | None:
    """Return the command for a line; None when it is for the model."""
    word = next(iter(text.split()), "")
    command = find_command(word[1:].lower()) if word.startswith("/") else None
    return command or (MISTYPED if is_single_word(text) else None)


@chat_command("", "say what was meant", audience="nobody", at_once=True)
def answer_mistyped(call: "CommandCall", tx: Transaction) -> str:
    word = call.message.content.strip()
    if name := suggest(word):
        return t("Unknown command `{word}`; did you mean `/{meant}`?", word=word, meant=name)
    return t("Unknown command `{word}`. /help lists the commands.", word=word)
