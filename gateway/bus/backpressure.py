"""Backpressure: limits on accepting messages, and the texts that explain them."""

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
    """Reason for not accepting messages: one of the texts above, with its number."""

    text: str
    n: int

    def __str__(self) -> str:
        return self.text.format(n=self.n)

    def refusal(self) -> KoreError:
        """Return the error for a source that does not store messages until there is room."""
        why = t("message not accepted: {why}", why=t(self.text, n=self.n))
        kind = QueueFull if self.text == CROWDED else KoreError
        return kind(why, hint=t("It was not stored. Send it again later."))


@frozen
class BackpressureLimits:
    """Limits on accepting messages; the platform stores messages until they are confirmed.

    `waiting_messages` counts messages over all lanes. Confirmed messages must be stored, so nothing
    is accepted with less than `free_bytes` of free disk space.
    """

    waiting_messages: int = 5_000
    free_bytes: int = 50 * 2**20
    check_interval_s: float = 2.0


class InboxRoom:
    """Check that fewer than `most` messages wait.

    Messages are counted only after enough new ones were accepted since the last count: counting
    reads all waiting messages, and so conflicts with every transaction that takes some of them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting_count = most  # at the last count
        self._accepted_count = 0  # since the last count

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
        """Store a count; messages accepted during counting are added to it."""
        self._waiting_count = waiting
        self._accepted_count = max(0, self._accepted_count - accepted)
