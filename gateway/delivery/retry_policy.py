"""How long and how often a part is tried again."""

from gateway.store.repositories.delivery.outbox import PendingPart

GIVE_UP_AFTER_S = 24 * 3600
AMBIGUOUS_TRIES = 3
_BACKOFF_S = (1, 2, 5, 15, 60, 300, 900)
# The last of these few tries should not meet the same trouble as the first.
_UNCLEAR_BACKOFF_S = (1, 30)
# So that many routes do not try at the same moment.
JITTER = (0.8, 1.2)
LONGEST_REST_S = _BACKOFF_S[-1] * JITTER[1]


def is_expired(due: PendingPart) -> bool:
    """Whether a day of tries is enough."""
    return due.waited_s > GIVE_UP_AFTER_S and due.attempts >= len(_BACKOFF_S)


def is_last_try(due: PendingPart) -> bool:
    """Whether what may have arrived was tried often enough."""
    # An edit may be repeated as often as one likes: it is the same message.
    return due.message.provider_message_id is None and due.ambiguous + 1 >= AMBIGUOUS_TRIES


def backoff_s(due: PendingPart, *, ambiguous: bool) -> float:
    """Until the next try."""
    if ambiguous and due.message.provider_message_id is None:
        return _UNCLEAR_BACKOFF_S[due.ambiguous]
    return _BACKOFF_S[min(due.attempts, len(_BACKOFF_S) - 1)]
