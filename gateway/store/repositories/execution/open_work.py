"""What is to be done and nobody is at, for processes that missed the hint."""

from gateway.core.messages import CONSOLE
from gateway.store.port import Transaction
from gateway.store.repositories.active_channels import TURN_RUN_HERE, run_here
from gateway.store.repositories.states import LIVE, RUNNING, WAITING

_FREE = f"SELECT lane FROM turn WHERE {RUNNING} AND is_claimed = 0 AND {TURN_RUN_HERE}"
# What waits behind a live turn is that turn's process's, and what waits in a paused conversation
# for a person.
_WAITS = (
    f" FROM inbox WHERE {WAITING} AND {run_here('inbox')} AND is_incomplete = 0"
    f" AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.lane = inbox.lane AND turn.{LIVE})"
    " AND NOT EXISTS (SELECT 1 FROM binding JOIN session ON session.id = binding.session"
    " WHERE binding.lane = inbox.lane AND session.status = 'paused')"
)
_WAITING = f"SELECT DISTINCT lane{_WAITS}"
_OLDEST_WAITING = f"SELECT min(received_at){_WAITS}"
_OLDEST_FREE = (
    "SELECT min((SELECT min(received_at) FROM inbox WHERE inbox.turn_id = turn.id)) FROM turn"
    f" WHERE {RUNNING} AND is_claimed = 0 AND {TURN_RUN_HERE}"
)


def lanes(tx: Transaction, most: int | None = None) -> list[str]:
    """Lanes with a turn to go on with that nobody has claimed, or with messages and no turn; of the
    latter no more than `most`, in the order of their names."""
    free = [lane for (lane,) in tx.all(_FREE)]
    if most is None:
        rows = tx.all(_WAITING)
    else:
        rows = tx.all(f"{_WAITING} ORDER BY lane LIMIT ?", (most,))
    # None of these has a turn.
    return [*free, *(lane for (lane,) in rows)]


def oldest_at(tx: Transaction) -> float | None:
    """When the oldest message came in (Unix time) that belongs to `lanes`; None without any."""
    rows = [*tx.all(_OLDEST_FREE), *tx.all(_OLDEST_WAITING)]
    return min((at for (at,) in rows if at is not None), default=None)


def stopped_lanes(tx: Transaction, worker: int) -> list[str]:
    """Where turns of a worker run that are to end."""
    rows = tx.all(
        f"SELECT lane FROM turn WHERE {RUNNING} AND worker = ? AND stop_requested = 1", (worker,)
    )
    return [lane for (lane,) in rows]


def is_console(lane: str) -> bool:
    """Whether a terminal of this machine waits there: its turns need the folder that it is in."""
    return lane.startswith(f"{CONSOLE}:")


def pinned_sessions(tx: Transaction, worker: int) -> list[str]:
    """Conversations with commands in the background of a worker."""
    return [one for (one,) in tx.all("SELECT id FROM session WHERE worker = ?", (worker,))]
