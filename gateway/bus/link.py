"""What the bus of one process tells those of others, where several run the turns of one Kore."""

from collections.abc import Callable, Collection
from typing import Protocol

from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.execution.claims import EVERYTHING, ClaimScope


class ProcessLink(Protocol):
    """`scope` is what this process may claim. `is_shared`: there are others, and `number` is this
    one's. Where `pass_on_mail` is None mail is sent here."""

    is_shared: bool

    @property
    def scope(self) -> ClaimScope: ...

    @property
    def number(self) -> int | None: ...

    @property
    def pass_on_mail(self) -> Callable[[str], None] | None: ...

    def pass_on(self, lane: str, worker: int | None) -> None:
        """There is something to do on the lane for the process with this number; None: for any
        that may run it."""
        ...

    def request_stop(self, lane: str) -> None:
        """The turn on this lane is to end, as the database knows."""
        ...

    def first_lanes(self, tx: Transaction) -> Collection[str]:
        """Lanes to begin with."""
        ...

    def tell_asked(self) -> None:
        """A question was put, whose time runs."""
        ...

    def tell_settled(self, nonce: str, value: str) -> None:
        """What a server asked in the middle of a call was answered with `value`, or withdrawn."""
        ...

    def end_session(self, session: str) -> None:
        """What a conversation has in the background ends, wherever it is."""
        ...


class SoleProcess:
    """One process does everything."""

    is_shared = False
    scope = EVERYTHING
    number = None
    pass_on_mail = None

    def pass_on(self, lane: str, worker: int | None) -> None:
        raise AssertionError("nothing is held elsewhere")

    def request_stop(self, lane: str) -> None:
        """Every turn runs here."""

    def first_lanes(self, tx: Transaction) -> Collection[str]:
        return inbox.lanes_with_work(tx)

    def tell_asked(self) -> None:
        pass

    def tell_settled(self, nonce: str, value: str) -> None:
        pass

    def end_session(self, session: str) -> None:
        pass
