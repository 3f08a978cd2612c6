"""Commands that people type in a chat; the same ones on every channel."""

from gateway.commands.table import MISTYPED, ChatCommand, find_command
from gateway.core.messages import InboundMessage
from gateway.core.records import TypedCommand


def command_of(message: InboundMessage) -> str | None:
    """The command that a message is, or None: only a sender's own words command.

    Any other single word with a slash is "", which `MISTYPED` answers.
    """
    if (
        message.forwarded
        or message.task is not None
        or message.job is not None
        or message.is_report
    ):
        return None
    word = _words(message)[0]
    if not word.startswith("/"):
        return None
    name = word[1:].partition("@")[0].lower()
    if (entry := find_command(name)) is not None:
        return entry[0]
    from gateway.commands.suggestions import is_single_word

    return "" if is_single_word(message.content) else None


def argument_of(message: InboundMessage) -> str:
    """What stands behind the command."""
    return _words(message)[1]


def read_command(message: InboundMessage) -> TypedCommand | None:
    """The message as a command, or None."""
    name = command_of(message)
    if name is None:
        return None
    return TypedCommand(name, argument_of(message), chat_command(name).at_once)


def is_command(message: InboundMessage) -> bool:
    return command_of(message) is not None


def is_at_once(message: InboundMessage) -> bool:
    """Whether it is a command that goes past the queue."""
    name = command_of(message)
    return name is not None and chat_command(name).at_once


def chat_command(name: str) -> ChatCommand:
    """What answers a name that `command_of` returned."""
    entry = find_command(name)
    return MISTYPED if entry is None else entry[1]


def _words(message: InboundMessage) -> tuple[str, str]:
    """The first word, and the rest."""
    first, *rest = message.content.split(maxsplit=1) or [""]
    return first, rest[0].strip() if rest else ""
