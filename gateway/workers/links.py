"""Links between the bus of the front and the buses of workers; both implement `ProcessLink`."""

from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b

from gateway.core.messages import CONSOLE, InboundMessage
from gateway.fanout.base import Fanout
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.execution import claims
from gateway.store.repositories.execution.claims import OWNER, ClaimScope
from gateway.workers.hints import (
    EventsHint,
    Hint,
    LaneHint,
    MailHint,
    QuestionHint,
    SessionEndHint,
    SettledHint,
    StopHint,
    encode,
)


def is_of_terminal(message: InboundMessage) -> bool:
    """Return whether a terminal or an editor sent this, so that its turns need that machine's
    folder.
    """
    return message.channel == CONSOLE


class FrontLink:
    """Link of the process that owns the data, which runs commands and turns of its terminals."""

    is_shared = True
    number = OWNER
    scope = ClaimScope(None, takes=is_of_terminal)
    pass_on_mail = None

    def __init__(self, fanout: Fanout) -> None:
        self._fanout = fanout
        # Free turns of each worker that counts.
        self.room: Mapping[int, int] = {}

    def pass_on(self, lane: str, worker: int | None) -> None:
        target = self._choose(lane) if worker is None else worker
        if target is not None:
            self.send_hint(LaneHint(lane, target))

    def request_stop(self, lane: str) -> None:
        self.send_hint(StopHint(lane))

    def first_lanes(self, tx: Transaction) -> Collection[str]:
        return inbox.lanes_with_work(tx)

    def announce_question(self) -> None:
        """Do nothing, because this process expires its own questions."""

    def announce_settlement(self, nonce: str, value: str) -> None:
        self.send_hint(SettledHint(nonce, value))

    def end_session(self, session: str) -> None:
        self.send_hint(SessionEndHint(session))

    def send_hint(self, hint: Hint) -> None:
        """Send a hint to every worker."""
        self._fanout.publish("workers", encode(hint))

    def _choose(self, lane: str) -> int | None:
        """Return the worker of a lane, or None if there is none and any worker may take it.

        The same worker is chosen as long as it is alive and has room, because it has files, servers
        and folders of the session open.
        """
        if not self.room:
            return None
        with_room = [number for number, room in self.room.items() if room > 0]
        return choose_worker(lane, with_room or self.room)


class WorkerLink:
    """Link of a worker. `is_isolated`: see `ClaimScope`."""

    is_shared = True

    def __init__(self, number: int, fanout: Fanout, is_isolated: Callable[[str], bool]) -> None:
        self.number = number
        self.scope = ClaimScope(number, lambda message: not is_of_terminal(message), is_isolated)
        self._fanout = fanout
        # Set by the event relay: events go out before hints about them.
        self.flush: Callable[[], None] = lambda: None

    def pass_on(self, lane: str, worker: int | None) -> None:
        if worker is None or worker == OWNER:
            self.send_hint(LaneHint(lane, OWNER))
        else:
            self._fanout.publish("workers", encode(LaneHint(lane, worker)))

    def request_stop(self, lane: str) -> None:
        """Request a stop; a turn that ends may stop the turns of its sub-agents."""
        self._fanout.publish("workers", encode(StopHint(lane)))

    def first_lanes(self, tx: Transaction) -> Collection[str]:
        # Turns that may have killed a process; meanwhile, `WorkerLoop` searches for other work.
        return [lane for group in claims.suspect_groups(tx) for lane in group]

    def pass_on_mail(self, lane: str) -> None:
        self.send_hint(MailHint(lane))

    def announce_question(self) -> None:
        self.send_hint(QuestionHint())

    def announce_settlement(self, nonce: str, value: str) -> None:
        """Do nothing, because questions of this process are settled here."""

    def end_session(self, session: str) -> None:
        self._fanout.publish("workers", encode(SessionEndHint(session)))

    def send_events(self, hint: EventsHint) -> None:
        self._fanout.publish("front", encode(hint))

    def send_hint(self, hint: Hint) -> None:
        """Send a hint to the front."""
        self.flush()
        self._fanout.publish("front", encode(hint))


def choose_worker(lane: str, workers: Collection[int]) -> int | None:
    """Return the worker for a lane by rendezvous hashing: a change of workers moves few lanes."""
    return max(workers, key=lambda number: _rank(lane, number), default=None)


def _rank(lane: str, number: int) -> bytes:
    return blake2b(f"{number} {lane}".encode(), digest_size=8).digest()
