"""Errors that more than one room raises or tells apart."""

from agent.errors import KoreError
from agent.i18n import mark_for_translation
from agent.security.policy.base import AnswerPending

# An error of a model service, for people who are not to learn the owner's addresses and accounts.
WITHHELD = mark_for_translation(
    "The model did not answer. Try again later; the log of this Kore tells its owner why."
)


class ConnectionLost(KoreError):
    """The process that owns the data went away in the middle of a conversation, or dropped
    the client that watched it."""

    code = "owner-lost"


class HandedOver(ConnectionLost):
    """The process that owned the data has let go of it for another one, which goes on."""

    code = "handed-over"


class QueueFull(KoreError):
    """Too many messages wait already; this one was not stored."""

    code = "queue-full"


class TurnSuspended(Exception):
    """The process goes down: the turn rests at its last journaled step and goes on later."""


class AwaitingAnswer(AnswerPending):
    """A person has to answer first, or a helper: the turn rests and holds nothing; the answer wakes
    its lane. `sentence` says so to the person who waits."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(reason)
        self.sentence = sentence


class ServiceUnreachable(KoreError):
    """No answer at all: the key or token may be valid."""
