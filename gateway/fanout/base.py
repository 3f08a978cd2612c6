"""Port for short messages between the processes of one Kore; messages may be lost.

The database is authoritative, and every receiver also checks it periodically. A message is a hint
that something has happened, or a chunk of a streaming answer whose complete text is eventually
stored.
"""

from collections.abc import Callable
from typing import Literal, Protocol

# Receivers: the process that owns the data, or every worker.
Topic = Literal["front", "workers"]
Receive = Callable[[bytes], None]
# Time that a process waits for an unreachable server when it exits.
FLUSH_TIMEOUT_S = 2.0


class Fanout(Protocol):
    """Transport of messages. `run` works until cancelled; call the other methods on its loop."""

    def publish(self, topic: Topic, message: bytes) -> None:
        """Send a message of any size soon, in the order of the calls. Never waits and never fails.

        While nothing can be sent, the oldest messages are dropped and counted in `dropped_count`.
        """
        ...

    def subscribe(self, topic: Topic, receive: Receive, reconnected: Callable[[], None]) -> None:
        """Register `receive` for whole messages of a topic; call this before `run`.

        Messages of a sender arrive in order. `reconnected` is called after the first connection and
        whenever messages may have been missed.
        """
        ...

    async def run(self) -> None:
        """Connect, and reconnect until cancelled."""
        ...

    async def flush(self) -> None:
        """Wait at shutdown until published messages are sent, at most `FLUSH_TIMEOUT_S`."""
        ...

    @property
    def dropped_count(self) -> int: ...
