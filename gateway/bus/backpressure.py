"""When taking in stops, and what is said of it."""

from agent.errors import KoreError
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from gateway.core.errors import QueueFull
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox

NO_DISK = mark_for_translation("less than {n} MB of disk space is free")

CROWDED = mark_for_translation("the queue is full ({n} messages)")


@frozen
class IngestBlocked:
    """One of the texts above, and the number in it."""

    text: str
    n: int

    def __str__(self) -> str:
        return self.text.format(n=self.n)

    def refusal(self) -> KoreError:
        """For a source that keeps no message until there is room."""
        why = t("message not accepted: {why}", why=t(self.text, n=self.n))
        kind = QueueFull if self.text == CROWDED else KoreError
        return kind(why, hint=t("It was not stored. Send it again later."))


@frozen
class BackpressureLimits:
    """When taking in stops: the platform keeps what it has not been told to forget.

    `waiting_messages` counts messages over all lanes; what is confirmed must be stored, so below
    `free_bytes` of disk nothing is taken in.
    """

    waiting_messages: int = 5_000
    free_bytes: int = 50 * 2**20
    check_interval_s: float = 2.0


class InboxRoom:
    """Whether fewer than `most` messages wait. They are counted only when as many were accepted
    since the last time: counting reads all that waits, and so conflicts with every transaction
    that takes some of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting_count = most  # at the last count
        self._accepted_count = 0  # since then

    def is_left(self, tx: Transaction) -> bool:
        accepted = self._accepted_count
        if self._waiting_count + accepted < self._most:
            return True
        waiting = inbox.waiting_count(tx)
        if waiting >= self._most:
            return False
        tx.after_commit(lambda: self._note_count(waiting, accepted))
        return True

    def note_accepted(self, messages: int) -> None:
        self._accepted_count += messages

    def _note_count(self, waiting: int, accepted: int) -> None:
        """What was accepted while it was counted still counts."""
        self._waiting_count = waiting
        self._accepted_count = max(0, self._accepted_count - accepted)
