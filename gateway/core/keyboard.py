"""Buttons below what a command answers: a press is a command with an argument, as if it
had been typed.

A button holds all that a press needs, so it works after a restart. One that concerns a
conversation names it: in the next conversation of its chat it is out of date.
"""

import hashlib
from collections.abc import Iterable

from agent.records import frozen
from gateway.core.messages import Button, InboundMessage

# The least that a platform with buttons keeps with each.
_LIMIT_BYTES = 64
_KIND = "c:"
_ANY = "-"


@frozen
class KeyboardChoice:
    """A button with this label is the command with this argument. `of_session`: it concerns the
    conversation that the chat is in."""

    label: str
    command: str
    argument: str
    of_session: bool = False


def buttons(choices: Iterable[KeyboardChoice], session: str | None) -> tuple[Button, ...]:
    """One for each choice that a button has room for; `session` is the chat's now."""
    keyboard = []
    for choice in choices:
        bound = _bound(session) if choice.of_session else _ANY
        data = f"{_KIND}{choice.command}:{bound}:{choice.argument}"
        if len(data.encode()) <= _LIMIT_BYTES:
            keyboard.append(Button(choice.label, data))
    return tuple(keyboard)


def is_choice(message: InboundMessage) -> bool:
    """Whether the button that was pressed stands below a command's answer."""
    return message.content.startswith(_KIND)


def command_of_button(message: InboundMessage, session: str | None) -> str | None:
    """The command that a press stands for, in a chat that is in this conversation; None when the
    button is out of date."""
    match message.content.removeprefix(_KIND).split(":", 2):
        case [command, bound, argument] if command and argument:
            return f"/{command} {argument}" if bound in (_ANY, _bound(session)) else None
    return None


def _bound(session: str | None) -> str:
    """A chat without a conversation is about to begin one: nothing is out of date there."""
    return hashlib.sha256(session.encode()).hexdigest()[:8] if session else _ANY
