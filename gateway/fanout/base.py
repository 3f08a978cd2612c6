"""How the processes of one Kore speak to each other: short messages that may be lost.

The truth is in the database, and whoever waits for a message also looks there now and then. So a
message is a hint that something has happened, or a piece of an answer that streams, whose whole
text is stored in the end.
"""

from collections.abc import Callable
from typing import Literal, Protocol

# Who listens: the process that owns the data, or every worker.
Topic = Literal["front", "workers"]
Receive = Callable[[bytes], None]
# A process that ends waits no longer for a server that is away.
FLUSH_S = 2.0


class Fanout(Protocol):
    """`run` carries until it is cancelled; `publish` and `subscribe` are called on its loop."""

    def publish(self, topic: Topic, message: bytes) -> None:
        """Send it soon, in the order of these calls; of any size. Never waits and never fails:
        while nothing can be sent, the oldest messages are dropped and counted in `dropped_count`.
        """
        ...

    def subscribe(self, topic: Topic, receive: Receive, reconnected: Callable[[], None]) -> None:
        """Before `run`: hand each whole message to `receive`, those of one sender in their order.
        `reconnected` after every time that some may have been missed, the first connection
        included."""
        ...

    async def run(self) -> None:
        """Connect, and connect again for as long as it takes."""
        ...

    async def flush(self) -> None:
        """Returns once what was published is sent, or after `FLUSH_S`; for a process that ends."""
        ...

    @property
    def dropped_count(self) -> int: ...
