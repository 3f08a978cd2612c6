"""Turns that may have ended the process."""

from itertools import groupby

from gateway.store.port import Transaction
from gateway.store.repositories.active_channels import TURN_RUN_HERE
from gateway.store.repositories.states import RUNNING

# A turn that was cut off this often without a new step, alone or with others, is a suspect.
SUSPECT_AFTER = 2
# Number of interruptions of a turn.
CUTS = "attempts - 1 + interruptions"


def suspect_groups(tx: Transaction) -> list[list[str]]:
    """Return the lanes of interrupted turns, in groups to continue one after the other.

    The list is empty if no turn is a suspect. Turns with the fewest interruptions come first.
    Suspects with equally many are halved, so that each further end of the process halves the
    suspicion.
    """
    rows = tx.all(
        f"SELECT lane, {CUTS} FROM turn WHERE {RUNNING} AND is_suspended = 0"
        f" AND is_claimed = 0 AND {CUTS} > 0 AND {TURN_RUN_HERE} ORDER BY {CUTS}, id"
    )
    if not rows or rows[-1][1] < SUSPECT_AFTER:
        return []
    groups: list[list[str]] = []
    for cuts, equals in groupby(rows, key=lambda row: row[1]):
        lanes = [lane for lane, _ in equals]
        half = (len(lanes) + 1) // 2 if cuts >= SUSPECT_AFTER else len(lanes)
        groups += [group for group in (lanes[:half], lanes[half:]) if group]
    return groups
