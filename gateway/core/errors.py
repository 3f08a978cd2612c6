"""Errors that several packages of the gateway raise or distinguish."""

from agent.errors import KoreError
from agent.i18n import mark_for_translation
from agent.security.policy.base import AnswerPending

# Replacement for the error of a model service, for people who must not see the owner's addresses
# and accounts.
WITHHELD = mark_for_translation(
    "The model did not answer. Try again later; the log of this Kore tells its owner why."
)


class ConnectionLost(KoreError):
    """The connection to the process that owns the data was lost.

    The process ended during a conversation, or dropped the client that watched it.
    """

    code = "owner-lost"


class HandedOver(ConnectionLost):
    """The process that owned the data has handed it over to another process, which continues."""

    code = "handed-over"


class QueueFull(KoreError):
    """The queue is full; this message was not stored."""

    code = "queue-full"


class TurnSuspended(Exception):
    """The process shuts down: the turn pauses at its last journaled step and resumes later."""


class AwaitingAnswer(AnswerPending):
    """The turn waits for the answer of a person or a sub-agent.

    A waiting turn uses no resources; the answer wakes its lane. `sentence` explains this to the
    person who waits.
    """

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(reason)
        self.sentence = sentence


class ServiceUnreachable(KoreError):
    """The service did not answer, so the key or token may still be valid."""


class CommandRefused(KoreError):
    """A command did nothing; the message is its answer, as markdown.

    Clients receive the outcome "refused", and a single run exits with an error.
    """

    code = "refused"
