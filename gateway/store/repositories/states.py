"""Conditions for the states that a turn and a row of the inbox can be in."""

# Reason for the tombstone of a stranger's message.
DENIED = "not on the allow-list"

# A row of the inbox that no turn has taken.
WAITING = "turn_id IS NULL AND dead_reason IS NULL"

# A turn that has not ended.
LIVE = "state IN ('running', 'waiting')"

# The index of live turns is used only for queries with its exact condition.
RUNNING = f"({LIVE} AND state = 'running')"

AWAITING = f"({LIVE} AND state = 'waiting')"
