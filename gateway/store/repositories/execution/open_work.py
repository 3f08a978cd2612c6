"""Work that no process has claimed, for processes that missed the notification."""

from gateway.core.messages import CONSOLE
from gateway.store.conditions import LIVE, RUNNING, WAITING
from gateway.store.port import Transaction
from gateway.store.repositories.active_channels import TURN_RUN_HERE, run_here

_FREE = f"SELECT lane FROM turn WHERE {RUNNING} AND is_claimed = 0 AND {TURN_RUN_HERE}"
# Messages waiting for a live turn belong to that turn's process, and messages in a paused
# conversation wait for a person.
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


def lanes(tx: Transaction, limit: int | None = None) -> list[str]:
    """Return lanes with an unclaimed turn to continue, and lanes with messages but no turn.

    Of the latter, return at most `limit`, in order of their names.
    """
    free = [lane for (lane,) in tx.all(_FREE)]
    if limit is None:
        rows = tx.all(_WAITING)
    else:
        rows = tx.all(f"{_WAITING} ORDER BY lane LIMIT ?", (limit,))
    # None of these has a turn.
    return [*free, *(lane for (lane,) in rows)]


def oldest_at(tx: Transaction) -> float | None:
    """Return the arrival (Unix time) of the oldest message in `lanes`; None without any."""
    rows = [*tx.all(_OLDEST_FREE), *tx.all(_OLDEST_WAITING)]
    return min((at for (at,) in rows if at is not None), default=None)


def stopped_lanes(tx: Transaction, worker: int) -> list[str]:
    """Return the lanes where a worker runs turns that must stop."""
    rows = tx.all(
        f"SELECT lane FROM turn WHERE {RUNNING} AND worker = ? AND stop_requested = 1", (worker,)
    )
    return [lane for (lane,) in rows]


def is_console(lane: str) -> bool:
    """Return whether a terminal of this machine waits there, whose turns need its folder."""
    return lane.startswith(f"{CONSOLE}:")


def pinned_sessions(tx: Transaction, worker: int) -> list[str]:
    """Return the conversations that have background commands in a worker."""
    return [session for (session,) in tx.all("SELECT id FROM session WHERE worker = ?", (worker,))]
