"""Transport of messages over NOTIFY of the PostgreSQL server with the data.

A single connection listens and sends. It calls libpq when the event loop finds the socket ready,
because waits of psycopg cannot be cancelled while the server does not answer.
"""

import asyncio
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from gateway.core.addresses import (
    SERVER_TIMEOUTS,
    TIMEOUTS,
    application_name,
    own_name,
    public_address,
)
from gateway.fanout.base import Topic
from gateway.fanout.frames import KeySource
from gateway.fanout.queued import MAX_QUEUE_BYTES, LinkLost, QueuedFanout, TopicFrame

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGconn, PGresult
    from psycopg.rows import TupleRow

# A payload is text and must be shorter than 8000 bytes:
# https://www.postgresql.org/docs/15/sql-notify.html
_PAYLOAD_BYTES = 7999
_FRAME_BYTES = _PAYLOAD_BYTES // 4 * 3
# A notification is a hint that may be lost with the server, so nothing waits for a disk.
_OPTIONS = "-c synchronous_commit=off -c jit=off" + SERVER_TIMEOUTS
_SEND = b"SELECT count(pg_notify(c, p)) FROM unnest($1::text[], $2::text[]) AS n (c, p)"
_OPEN_TIMEOUT_S = 15.0
# Time limit for an answer of the server, and interval between checks of the connection.
_ANSWER_S, _CHECK_S = 15.0, 30.0
_STATEMENT = b"kore_notify"
_CHANNELS: dict[str, Topic] = {"kore_front": "front", "kore_workers": "workers"}


class NotifyFanout(QueuedFanout):
    """Fanout over NOTIFY. `address` names the store's server, or a pooler in session mode."""

    # Each NOTIFY waits for the commit of the previous one in the whole database.
    gather_s = 0.005

    def __init__(
        self, address: str, keys: KeySource | None, *, queue_bytes: int = MAX_QUEUE_BYTES
    ) -> None:
        super().__init__(keys, queue_bytes=queue_bytes)
        self._address = address

    @property
    def place(self) -> str:
        return public_address(self._address)

    @asynccontextmanager
    async def _open_link(self) -> AsyncIterator["_NotifyLink"]:
        connection = await connect_session(self._address)
        link = _NotifyLink(connection.pgconn, self._deliver)
        try:
            await link.listen(self._topics)
            yield link
        finally:
            link.close()
            await connection.close()


async def connect_session(address: str) -> "psycopg.AsyncConnection[TupleRow]":
    """Open a session outside a transaction. Raises `LinkLost`."""
    import psycopg

    try:
        async with asyncio.timeout(_OPEN_TIMEOUT_S):
            return await psycopg.AsyncConnection.connect(
                address,
                autocommit=True,
                application_name=application_name(own_name()),
                options=_OPTIONS,
                **TIMEOUTS,
            )
    except TimeoutError:
        raise LinkLost("no answer") from None
    except psycopg.ProgrammingError:
        # The error text about a malformed address may contain a password.
        raise LinkLost("the address is malformed") from None
    except psycopg.Error as exc:
        raise LinkLost(_one_line(str(exc))) from None


class _NotifyLink:
    """Connection that only this class uses."""

    limit_bytes = _FRAME_BYTES

    def __init__(self, server: "PGconn", deliver: Callable[[Topic, bytes], None]) -> None:
        self._server = server
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._socket = server.socket
        self._free = asyncio.Lock()
        self._answer: asyncio.Future[None] | None = None
        self._lost = asyncio.Event()
        self._reason = ""
        self._loop.add_reader(self._socket, self._read)

    async def listen(self, topics: Iterable[Topic]) -> None:
        """Listen to topics. Raises `LinkLost`."""
        for topic in topics:
            await self._ask(partial(self._server.send_query, f"LISTEN kore_{topic}".encode()))
        await self._ask(partial(self._server.send_prepare, _STATEMENT, _SEND))

    async def send(self, frames: Sequence[TopicFrame]) -> None:
        channels = _array(f"kore_{topic}".encode() for topic, _ in frames)
        payloads = _array(b64encode(frame) for _, frame in frames)
        send = partial(self._server.send_query_prepared, _STATEMENT, [channels, payloads])
        await self._ask(send)

    async def watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_CHECK_S):
                    await self._lost.wait()
            except TimeoutError:
                # A listener is not informed when a device in between drops its connection.
                await self._ask(partial(self._server.send_query, b"SELECT 1"))
            else:
                raise LinkLost(self._reason)

    def close(self) -> None:
        self._fail("closed")

    async def _ask(self, send: Callable[[], None]) -> None:
        import psycopg

        async with self._free:
            self._answer = answer = self._loop.create_future()
            if not self._lost.is_set():
                try:
                    send()
                    self._flush()
                    async with asyncio.timeout(_ANSWER_S):
                        await answer
                except psycopg.Error as exc:
                    self._fail(_one_line(str(exc)))
                except TimeoutError:
                    self._fail("no answer")
            if self._lost.is_set():
                raise LinkLost(self._reason)

    def _flush(self) -> None:
        """Send what the socket accepts now; the rest follows when it is writable."""
        import psycopg

        try:
            is_left = self._server.flush()
        except psycopg.Error as exc:
            self._fail(_one_line(str(exc)))
            return
        if is_left:
            self._loop.add_writer(self._socket, self._flush)
        else:
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        import psycopg

        try:
            self._server.consume_input()
            while (notification := self._server.notifies()) is not None:
                self._take(notification.relname.decode(), notification.extra)
            while self._answer is not None and not self._server.is_busy():
                if not self._take_result(self._server.get_result()):
                    break
        except psycopg.Error as exc:
            self._fail(_one_line(str(exc)))

    def _take(self, channel: str, payload: bytes) -> None:
        try:
            frame = b64decode(payload, validate=True)
        except NotBase64:
            # Notification of another program.
            return
        if (topic := _CHANNELS.get(channel)) is not None:
            self._deliver(topic, frame)

    def _take_result(self, result: "PGresult | None") -> bool:
        """Return whether another result of the same statement may follow."""
        from psycopg.pq import ExecStatus

        if result is None:
            self._end_answer()
        elif result.status == ExecStatus.FATAL_ERROR:
            self._fail(_one_line(result.error_message.decode("utf-8", "replace")))
        return result is not None and not self._lost.is_set()

    def _end_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(None)

    def _fail(self, reason: str) -> None:
        if self._lost.is_set():
            return
        # Remove the reader at once: the number of a closed socket is soon reused.
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._reason = reason
        self._lost.set()
        self._end_answer()


def _array(words: Iterable[bytes]) -> bytes:
    """Return a PostgreSQL array of words that need no quotes."""
    return b"{" + b",".join(words) + b"}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
