"""Buttons below the answer of a command.

A press runs a command with an argument, as if it had been typed. A button contains all data of its
press, so it works after a restart. A button for a conversation contains its id and is out of date
in the chat's next conversation.
"""

import hashlib
from collections.abc import Iterable

from agent.records import frozen
from gateway.core.messages import Button, InboundMessage
from gateway.core.platform_limits import ButtonLimits

_KIND = "c:"
_ANY = "-"


@frozen
class KeyboardChoice:
    """Button with a label, which runs the command with an argument.

    `of_session`: it concerns the current conversation of the chat.
    """

    label: str
    command: str
    argument: str
    of_session: bool = False


def buttons(
    choices: Iterable[KeyboardChoice], session: str | None, limits: ButtonLimits
) -> tuple[Button, ...]:
    """Return buttons for the choices within the platform's limits.

    `session` is the chat's current one.
    """
    keyboard = []
    for choice in choices:
        bound = _bound(session) if choice.of_session else _ANY
        data = f"{_KIND}{choice.command}:{bound}:{choice.argument}"
        if len(data.encode()) <= limits.data_bytes:
            keyboard.append(Button(choice.label, data))
    return tuple(keyboard[: limits.count])


def is_choice(message: InboundMessage) -> bool:
    """Return whether the pressed button belongs to a command's answer."""
    return message.content.startswith(_KIND)


def command_of_button(message: InboundMessage, session: str | None) -> str | None:
    """Return the command of a press in a chat with this conversation.

    Returns None if the button is out of date.
    """
    match message.content.removeprefix(_KIND).split(":", 2):
        case [command, bound, argument] if command and argument:
            return f"/{command} {argument}" if bound in (_ANY, _bound(session)) else None
    return None


def _bound(session: str | None) -> str:
    """Return the session part of the button data.

    In a chat without a conversation, which is about to begin one, nothing is out of date.
    """
    return hashlib.sha256(session.encode()).hexdigest()[:8] if session else _ANY
