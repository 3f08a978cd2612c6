"""Where a conversation is cut in two: what is told in a summary, and what stays word for word."""

from collections.abc import Sequence
from itertools import accumulate

from agent.context.token_budget import estimate
from agent.records import frozen
from agent.types import Message

KEPT_ROUNDS = 3


@frozen
class SplitPoint:
    """What is before `place` leaves, but for the user message `request`: it stays in front."""

    place: int
    request: int | None = None

    @property
    def gone(self) -> int:
        """How many messages leave."""
        return self.place - (self.request is not None)

    def kept(self, messages: Sequence[Message]) -> list[Message]:
        front = [] if self.request is None else [messages[self.request]]
        return [*front, *messages[self.place :]]

    def leaving(self, messages: Sequence[Message]) -> list[Message]:
        return [one for at, one in enumerate(messages[: self.place]) if at != self.request]


def choose(messages: Sequence[Message], goal: int) -> SplitPoint | None:
    """The cut that keeps the newest three rounds; fewer when they take more than `goal` tokens.

    Of a round that is too long by itself the request and the newest replies are kept. None when
    there is nothing to cut off. What stays begins with a user message if `messages` do.
    """
    cuts = _cuts(messages)
    below = [0, *accumulate(map(estimate, messages))]
    for cut in cuts:
        front = 0 if cut.request is None else estimate(messages[cut.request])
        if front + below[-1] - below[cut.place] <= goal:
            return cut
    return cuts[-1] if cuts else None


def _cuts(messages: Sequence[Message]) -> list[SplitPoint]:
    """From the one that keeps most to the one that keeps least."""
    rounds = [at for at, message in enumerate(messages) if message.role == "user"]
    cuts = [SplitPoint(at) for at in rounds[-KEPT_ROUNDS:] if at > 0]
    if rounds:
        request = rounds[-1]
        replies = [
            at for at in range(request + 2, len(messages)) if messages[at].role == "assistant"
        ]
        cuts += [SplitPoint(at, request) for at in replies[-KEPT_ROUNDS:]]
    return cuts
