"""Link between the buses of several processes that run turns of one Kore."""

from collections.abc import Callable, Collection
from typing import Protocol

from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.execution.claims import EVERYTHING, ClaimScope


class ProcessLink(Protocol):
    """Link to other processes.

    `scope` limits what this process may claim. `is_shared`: other processes exist, and `number`
    identifies this one. If `pass_on_mail` is None, this process sends messages.
    """

    is_shared: bool

    @property
    def scope(self) -> ClaimScope: ...

    @property
    def number(self) -> int | None: ...

    @property
    def pass_on_mail(self) -> Callable[[str], None] | None: ...

    def pass_on(self, lane: str, worker: int | None) -> None:
        """Notify the process with this number (None: any that may run it) of work on the lane."""
        ...

    def request_stop(self, lane: str) -> None:
        """Request the end of the turn on this lane; the stop is already stored."""
        ...

    def first_lanes(self, tx: Transaction) -> Collection[str]:
        """Return the lanes to start with."""
        ...

    def announce_question(self) -> None:
        """Announce a new question with a time limit."""
        ...

    def announce_settlement(self, nonce: str, value: str) -> None:
        """Announce that a server's question was answered with `value`, or withdrawn."""
        ...

    def end_session(self, session: str) -> None:
        """End a conversation's background work in any process."""
        ...


class SoleProcess:
    """Link for a single process that does everything."""

    is_shared = False
    scope = EVERYTHING
    number = None
    pass_on_mail = None

    def pass_on(self, lane: str, worker: int | None) -> None:
        raise AssertionError("nothing is held elsewhere")

    def request_stop(self, lane: str) -> None:
        """Do nothing: every turn runs here."""

    def first_lanes(self, tx: Transaction) -> Collection[str]:
        return inbox.lanes_with_work(tx)

    def announce_question(self) -> None:
        pass

    def announce_settlement(self, nonce: str, value: str) -> None:
        pass

    def end_session(self, session: str) -> None:
        pass
