"""Retry policy for message parts."""

from gateway.store.repositories.delivery.outbox import PendingPart

RETRY_TIMEOUT_S = 24 * 3600
MAX_AMBIGUOUS_TRIES = 3
_BACKOFF_S = (1, 2, 5, 15, 60, 300, 900)
# Spread widely, so that the last attempt does not fall into the same outage as the first.
_UNCLEAR_BACKOFF_S = (1, 30)
# Spreads the retries of many routes over time.
JITTER = (0.8, 1.2)
MAX_RETRY_INTERVAL_S = _BACKOFF_S[-1] * JITTER[1]


def is_expired(due: PendingPart) -> bool:
    """Return whether the retry period of one day is over."""
    return due.waited_s > RETRY_TIMEOUT_S and due.attempts >= len(_BACKOFF_S)


def is_last_try(due: PendingPart) -> bool:
    """Return whether a part with an unclear result has reached its retry limit."""
    # Edits may be repeated without limit: they affect the same message.
    return due.message.provider_message_id is None and due.ambiguous + 1 >= MAX_AMBIGUOUS_TRIES


def backoff_s(due: PendingPart, *, ambiguous: bool) -> float:
    """Return the delay until the next attempt, in seconds."""
    if ambiguous and due.message.provider_message_id is None:
        return _UNCLEAR_BACKOFF_S[due.ambiguous]
    return _BACKOFF_S[min(due.attempts, len(_BACKOFF_S) - 1)]
