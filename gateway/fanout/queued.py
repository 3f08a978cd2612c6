"""Common part of all transports: a bounded queue and one connection, replaced when it is lost.

A batch is sent at once if nothing is being sent; messages published meanwhile go together.
"""

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from itertools import islice
from math import inf
from typing import Protocol

from gateway.fanout.base import FLUSH_TIMEOUT_S, Receive, Topic
from gateway.fanout.frames import FrameError, FrameReader, FrameWriter, KeySource, new_sender

log = logging.getLogger(__name__)

MAX_QUEUE_BYTES = 32_000_000
# Overhead of a message, so that the number of empty messages is bounded, too.
_MESSAGE_BYTES = 100
# Limit on messages framed together and on frames that the server confirms together; the event loop
# is busy for that long.
_BATCH_BYTES = 256_000
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.1, 5.0
# A connection that lasted this long counts as good.
_MIN_STABLE_S = 5.0

TopicFrame = tuple[Topic, bytes]


class LinkLost(Exception):
    """Raised when a connection is lost; the reason contains no secret."""


class Link(Protocol):
    """Connection that listens to all subscribed topics."""

    @property
    def limit_bytes(self) -> int:
        """Maximum size of a frame."""
        ...

    async def send(self, frames: Sequence[TopicFrame]) -> None:
        """Send frames and return once the server has them. Raises `LinkLost`."""
        ...

    async def watch(self) -> None:
        """Wait until the connection is lost, then raise `LinkLost`."""
        ...


class QueuedFanout(ABC):
    """`Fanout` over connections from `_open_link`.

    A process that publishes to a topic it has subscribed to receives its own messages.
    """

    # Pause between batches, for servers to which fewer, larger batches are cheaper.
    gather_s = 0.0

    def __init__(self, keys: KeySource | None, *, queue_bytes: int = MAX_QUEUE_BYTES) -> None:
        self._keys = keys
        self._limit_bytes = queue_bytes
        self._sender = new_sender()
        self._writers: dict[Topic, FrameWriter] = {}
        self._readers: dict[Topic, FrameReader] = {}
        self._reconnected: list[Callable[[], None]] = []
        self._queue: deque[tuple[Topic, bytes]] = deque()
        self._queue_bytes = 0
        self._filled = asyncio.Event()
        # Set while the server has everything that was published.
        self._sent = asyncio.Event()
        self._sent.set()
        # Unconfirmed frames, sent again over the next connection.
        self._unsent: list[TopicFrame] = []
        self._frames: Iterator[TopicFrame] = iter(())
        self._dropped_count = 0
        self._is_warned = False

    @property
    @abstractmethod
    def place(self) -> str:
        """Name of the server for people, without secrets."""

    @abstractmethod
    def _open_link(self) -> AbstractAsyncContextManager[Link]:
        """Connect and listen to `_topics`. Raises `LinkLost`."""

    @property
    def dropped_count(self) -> int:
        return self._dropped_count

    @property
    def _topics(self) -> tuple[Topic, ...]:
        return tuple(self._readers)

    def publish(self, topic: Topic, message: bytes) -> None:
        self._queue.append((topic, message))
        self._queue_bytes += _cost(message)
        while self._queue_bytes > self._limit_bytes and len(self._queue) > 1:
            self._queue_bytes -= _cost(self._queue.popleft()[1])
            self._dropped_count += 1
        self._filled.set()
        self._sent.clear()

    def subscribe(self, topic: Topic, receive: Receive, reconnected: Callable[[], None]) -> None:
        self._readers[topic] = FrameReader(topic, self._keys, receive, reconnected)
        self._reconnected.append(reconnected)

    async def flush(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_TIMEOUT_S):
                await self._sent.wait()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = _FIRST_PAUSE_S
        while True:
            opened_at = inf
            try:
                async with self._open_link() as link:
                    opened_at = loop.time()
                    self._connected()
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._send_all(link))
                        # Await here: Python 3.11 counts one cancellation too many when only tasks
                        # fail.
                        await link.watch()
            except* LinkLost as lost:
                self._warn("no connection to %s (%s); trying again", self.place, _reason(lost))
            if loop.time() - opened_at > _MIN_STABLE_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    def _connected(self) -> None:
        if self._is_warned:
            log.info("connected to %s again", self.place)
            self._is_warned = False
        for reconnected in self._reconnected:
            reconnected()

    def _warn(self, text: str, *words: object) -> None:
        """Log a warning once per lost connection, because attempts may continue for hours."""
        log.log(logging.DEBUG if self._is_warned else logging.WARNING, text, *words)
        self._is_warned = True

    def _deliver(self, topic: Topic, frame: bytes) -> None:
        """Process a frame that a link has received."""
        try:
            self._readers[topic].read(frame)
        except FrameError as exc:
            log.debug("ignored what %s sent: %s", self.place, exc)

    async def _send_all(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._next_frames(link.limit_bytes)
            began_at = loop.time()
            await link.send(self._unsent)
            self._unsent = []
            if self._queue_bytes < _BATCH_BYTES:
                await asyncio.sleep(max(0.0, began_at + self.gather_s - loop.time()))

    async def _next_frames(self, limit_bytes: int) -> None:
        """Move frames into `_unsent` once the queue has messages."""
        while not self._unsent:
            frames = islice(self._frames, max(1, _BATCH_BYTES // limit_bytes))
            if batch := list(frames):
                self._unsent = batch
            else:
                if not self._queue:
                    self._sent.set()
                await self._filled.wait()
                self._frames = self._cut(self._take_batch(), limit_bytes)
        # Frames built for a connection that accepted larger ones.
        self._unsent = [item for item in self._unsent if len(item[1]) <= limit_bytes]

    def _take_batch(self) -> dict[Topic, list[bytes]]:
        batch: dict[Topic, list[bytes]] = {}
        batch_bytes = 0
        while self._queue and batch_bytes < _BATCH_BYTES:
            topic, message = self._queue.popleft()
            batch.setdefault(topic, []).append(message)
            batch_bytes += _cost(message)
        self._queue_bytes -= batch_bytes
        if not self._queue:
            self._filled.clear()
        return batch

    def _cut(self, batch: dict[Topic, list[bytes]], limit_bytes: int) -> Iterator[TopicFrame]:
        for topic, messages in batch.items():
            if topic not in self._writers:
                self._writers[topic] = FrameWriter(topic, self._sender, self._keys)
            for frame in self._writers[topic].frames(messages, limit_bytes):
                yield topic, frame


def _cost(message: bytes) -> int:
    return len(message) + _MESSAGE_BYTES


def _reason(lost: BaseExceptionGroup[LinkLost]) -> str:
    first: BaseException = lost
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first)
