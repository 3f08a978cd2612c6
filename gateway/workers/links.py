"""How the bus of the front and of a worker reach each other; both implement `ProcessLink`."""

from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b

from gateway.core.messages import CONSOLE, InboundMessage
from gateway.fanout.base import Fanout
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.execution import suspects
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
    """A terminal or an editor of the front's machine: its turns need the folder that it is in."""
    return message.channel == CONSOLE


class FrontLink:
    """In the process that owns the data: it runs commands, and the turns of its own terminals."""

    is_shared = True
    number = OWNER
    scope = ClaimScope(None, takes=is_of_terminal)
    pass_on_mail = None

    def __init__(self, fanout: Fanout) -> None:
        self._fanout = fanout
        # How many turns each worker that counts has room for.
        self.room: Mapping[int, int] = {}

    def pass_on(self, lane: str, worker: int | None) -> None:
        target = self._choose(lane) if worker is None else worker
        if target is not None:
            self.tell(LaneHint(lane, target))

    def request_stop(self, lane: str) -> None:
        self.tell(StopHint(lane))

    def first_lanes(self, tx: Transaction) -> Collection[str]:
        return inbox.lanes_with_work(tx)

    def tell_asked(self) -> None:
        """The question is this process's own to end."""

    def tell_settled(self, nonce: str, value: str) -> None:
        self.tell(SettledHint(nonce, value))

    def end_session(self, session: str) -> None:
        self.tell(SessionEndHint(session))

    def tell(self, hint: Hint) -> None:
        """Every worker."""
        self._fanout.publish("workers", encode(hint))

    def _choose(self, lane: str) -> int | None:
        """The same worker for a lane as long as it counts and has room: it has files, servers and
        folders of that conversation open. None without any: whoever begins looks for itself."""
        if not self.room:
            return None
        with_room = [number for number, room in self.room.items() if room > 0]
        return choose_worker(lane, with_room or self.room)


class WorkerLink:
    """In a worker. `is_isolated`: see `ClaimScope`."""

    is_shared = True

    def __init__(self, number: int, fanout: Fanout, is_isolated: Callable[[str], bool]) -> None:
        self.number = number
        self.scope = ClaimScope(number, lambda message: not is_of_terminal(message), is_isolated)
        self._fanout = fanout
        # What turns have shown goes out before what is told of them.
        self.flush: Callable[[], None] = lambda: None

    def pass_on(self, lane: str, worker: int | None) -> None:
        if worker is None or worker == OWNER:
            self.tell(LaneHint(lane, OWNER))
        else:
            self._fanout.publish("workers", encode(LaneHint(lane, worker)))

    def request_stop(self, lane: str) -> None:
        """A turn that ends may stop others that work for it."""
        self._fanout.publish("workers", encode(StopHint(lane)))

    def first_lanes(self, tx: Transaction) -> Collection[str]:
        # What may have ended a process before; the rest is looked for by `WorkerLoop`.
        return [lane for group in suspects.suspect_groups(tx) for lane in group]

    def pass_on_mail(self, lane: str) -> None:
        self.tell(MailHint(lane))

    def tell_asked(self) -> None:
        self.tell(QuestionHint())

    def tell_settled(self, nonce: str, value: str) -> None:
        """What was asked here is settled here."""

    def end_session(self, session: str) -> None:
        self._fanout.publish("workers", encode(SessionEndHint(session)))

    def send_events(self, hint: EventsHint) -> None:
        self._fanout.publish("front", encode(hint))

    def tell(self, hint: Hint) -> None:
        """The front."""
        self.flush()
        self._fanout.publish("front", encode(hint))


def choose_worker(lane: str, workers: Collection[int]) -> int | None:
    """The same one for a lane as long as it is among them: others that come or go move few."""
    return max(workers, key=lambda number: _rank(lane, number), default=None)


def _rank(lane: str, number: int) -> bytes:
    return blake2b(f"{number} {lane}".encode(), digest_size=8).digest()
