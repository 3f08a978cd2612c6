"""Servers for fanout tests, with faults to inject, and a subscribed member."""

import asyncio
import os
import signal
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
)
from pathlib import Path

import psycopg
from nats.aio.client import Client
from nats.aio.msg import Msg

from gateway.fanout.base import Topic
from gateway.fanout.frames import KeySource
from gateway.fanout.nats import NatsFanout
from gateway.fanout.notify import NotifyFanout
from gateway.fanout.queued import MAX_QUEUE_BYTES, QueuedFanout
from gateway.store.postgres.connection import connect
from tests.gateway.parts import cancel_and_wait, wait_until
from tests.nats_server import NatsServer
from tests.postgres_server import PostgresServer
from tests.processes import suspend

KORE_ID = "0011223344556677"


class Bus(ABC):
    """A running message server whose faults a test controls."""

    @abstractmethod
    def fanout(
        self, keys: KeySource | None = None, *, queue_bytes: int = MAX_QUEUE_BYTES, kore: int = 0
    ) -> QueuedFanout:
        """Return the fanout of one process; `kore` selects one of two installations."""

    @abstractmethod
    def cut(self) -> None:
        """Drop every connection to the server."""

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """Send SIGSTOP to all processes of the server; `resume` continues them."""

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    async def send_raw(self, topic: Topic, frame: bytes) -> None:
        """Send a frame as a different program would."""

    @abstractmethod
    def raw(self, topic: Topic) -> AbstractAsyncContextManager[list[bytes]]:
        """Yield a list that collects the messages that a different program sees."""


class PostgresBus(Bus):
    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._addresses = server.create_database(), server.create_database()
        self._stopped: list[int] = []

    def fanout(
        self, keys: KeySource | None = None, *, queue_bytes: int = MAX_QUEUE_BYTES, kore: int = 0
    ) -> QueuedFanout:
        return NotifyFanout(self._addresses[kore], keys, queue_bytes=queue_bytes)

    def cut(self) -> None:
        with closing(connect(self._addresses[0])) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    def kill(self) -> None:
        self.resume()
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        with closing(connect(self._addresses[0])) as connection:
            rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE datname IS NOT NULL")
            own = connection.info.backend_pid
            backends = [int(pid) for (pid,) in rows if pid != own]
        first = int((self._server.data / "postmaster.pid").read_text().split()[0])
        self._stopped = [first, *backends]
        for process in self._stopped:
            suspend(process)

    def resume(self) -> None:
        for process in self._stopped:
            os.kill(process, signal.SIGCONT)
        self._stopped = []

    async def send_raw(self, topic: Topic, frame: bytes) -> None:
        with closing(connect(self._addresses[0])) as connection:
            connection.execute("SELECT pg_notify(%s, %s)", (f"kore_{topic}", frame.decode()))

    @asynccontextmanager
    async def raw(self, topic: Topic) -> AsyncIterator[list[bytes]]:
        seen: list[bytes] = []
        connection = await psycopg.AsyncConnection.connect(self._addresses[0], autocommit=True)
        await connection.execute(f"LISTEN kore_{topic}")

        async def listen() -> None:
            async for notify in connection.notifies():
                # The payload both as sent and decoded from Base64, as any reader can do.
                seen.extend((notify.payload.encode(), b64decode(notify.payload)))

        task = asyncio.create_task(listen())
        try:
            yield seen
        finally:
            await cancel_and_wait(task)
            await connection.close()


class NatsBus(Bus):
    def __init__(self, server: NatsServer) -> None:
        self._server = server

    def fanout(
        self, keys: KeySource | None = None, *, queue_bytes: int = MAX_QUEUE_BYTES, kore: int = 0
    ) -> QueuedFanout:
        async def find_id() -> str:
            return KORE_ID if kore == 0 else "8899aabbccddeeff"

        url = self._server.url
        return NatsFanout(url, keys, find_id=find_id, name="test", queue_bytes=queue_bytes)

    def cut(self) -> None:
        self._server.kill()
        self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def resume(self) -> None:
        self._server.resume()

    async def send_raw(self, topic: Topic, frame: bytes) -> None:
        client = Client()
        await client.connect(self._server.url)
        await client.publish(f"kore.{KORE_ID}.{topic}", frame)
        await client.close()

    @asynccontextmanager
    async def raw(self, topic: Topic) -> AsyncIterator[list[bytes]]:
        seen: list[bytes] = []
        client = Client()
        await client.connect(self._server.url)

        async def take(message: Msg) -> None:
            seen.append(message.data)

        await client.subscribe(f"kore.{KORE_ID}.{topic}", cb=take)
        await client.flush()
        yield seen
        await client.close()


@contextmanager
def nats_bus(folder: Path) -> Iterator[NatsBus]:
    server = NatsServer(folder)
    server.start()
    try:
        yield NatsBus(server)
    finally:
        server.kill()


class Member:
    """A process of a Kore and the `messages` received on its topics."""

    def __init__(self, fanout: QueuedFanout, topics: tuple[Topic, ...] = ()) -> None:
        self.fanout = fanout
        self.messages: list[bytes] = []
        self.reconnects = 0
        for topic in topics:
            fanout.subscribe(topic, self.messages.append, self._count)

    def publish(self, *messages: bytes, topic: Topic = "front") -> None:
        for message in messages:
            self.fanout.publish(topic, message)

    def _count(self) -> None:
        self.reconnects += 1


@asynccontextmanager
async def joined(fanout: QueuedFanout, *topics: Topic) -> AsyncIterator[Member]:
    """Run a member; a member with topics is connected when the block starts."""
    member = Member(fanout, topics)
    task = asyncio.create_task(fanout.run())
    try:
        await wait_until(lambda: member.reconnects >= len(topics) or task.done())
        yield member
    finally:
        await cancel_and_wait(task)
