"""Transport of messages over plain subjects of a NATS server (ADR 0121).

The client's own reconnecting is off: its buffer drops the newest messages, and it would follow
addresses of other servers that this configuration does not name.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from gateway.fanout.base import Topic
from gateway.fanout.frames import KeySource
from gateway.fanout.queued import MAX_QUEUE_BYTES, LinkLost, QueuedFanout, TopicFrame

if TYPE_CHECKING:
    from nats.aio.msg import Msg

log = logging.getLogger(__name__)

# Frames stay below the limit of servers, because a frame is built and read in one piece.
_FRAME_BYTES = 128_000
_OPEN_TIMEOUT_S = 10.0
_CONNECT_TIMEOUT_S = 5
_ANSWER_TIMEOUT_S = 10
# A server that has stopped is noticed after about twice this time.
_PING_INTERVAL_S = 5
_CLOSE_TIMEOUT_S = 1.0


class NatsFanout(QueuedFanout):
    """Fanout over NATS.

    `url` is the setting `bus.url`. `find_id` returns the prefix of this installation's subjects;
    it raises `LinkLost` if the prefix is not known yet. `name` is shown in the server's monitoring.
    """

    # Each batch wakes the server and every listener.
    gather_s = 0.002

    def __init__(
        self,
        url: str,
        keys: KeySource | None,
        *,
        find_id: Callable[[], Awaitable[str]],
        name: str,
        queue_bytes: int = MAX_QUEUE_BYTES,
    ) -> None:
        super().__init__(keys, queue_bytes=queue_bytes)
        self._url = url
        self._find_id = find_id
        self._id: str | None = None
        self._name = name

    @property
    def place(self) -> str:
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @asynccontextmanager
    async def _open_link(self) -> AsyncIterator["_NatsLink"]:
        if self._id is None:
            self._id = await self._find_id()
        link = _NatsLink(self._id, self._deliver)
        try:
            await link.connect(self._url, self._name)
            for topic in self._topics:
                await link.listen(topic)
            yield link
        finally:
            await link.close()


class _NatsLink:
    def __init__(self, kore_id: str, deliver: Callable[[Topic, bytes], None]) -> None:
        from nats.aio.client import Client

        self._id = kore_id
        self._deliver = deliver
        self._client: Client = Client()
        self._flushing: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._reason = "closed by the server"

    @property
    def limit_bytes(self) -> int:
        return min(_FRAME_BYTES, self._client.max_payload)

    async def connect(self, url: str, name: str) -> None:
        """Connect to the server. Raises `LinkLost`."""
        from nats import errors

        parts = urlsplit(url)
        # The client gets an address without credentials: it would not decode them and might show
        # them.
        user, password = _plain(parts.username), _plain(parts.password)
        token = user if password is None else None
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                await self._client.connect(
                    f"nats://{parts.netloc.rpartition('@')[2]}",
                    name=name,
                    user=None if password is None else self._guarded(user or "", parts.scheme),
                    password=None if password is None else self._guarded(password, parts.scheme),
                    token=None if token is None else self._guarded(token, parts.scheme),
                    error_cb=self._note_error,
                    closed_cb=self._note_end,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=_CONNECT_TIMEOUT_S,
                    ping_interval=_PING_INTERVAL_S,
                )
        except TimeoutError:
            raise LinkLost("no answer") from None
        except errors.NoServersError:
            raise LinkLost(self._reason) from None
        except (errors.Error, OSError) as exc:
            raise LinkLost(_one_line(exc)) from None
        self._check_tls(parts.scheme)

    async def listen(self, topic: Topic) -> None:
        """Subscribe to a topic. Raises `LinkLost`."""
        from nats import errors

        async def take(message: "Msg") -> None:
            self._deliver(topic, message.data)

        try:
            await self._client.subscribe(self._subject(topic), cb=take)
            _stop_if_cancelled()
            await self._flush()
        except (errors.Error, OSError) as exc:
            raise LinkLost(_one_line(exc)) from None

    async def send(self, frames: Sequence[TopicFrame]) -> None:
        from nats import errors

        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                for topic, frame in frames:
                    await self._client.publish(self._subject(topic), frame)
                    _stop_if_cancelled()
                await self._flush()
        except TimeoutError:
            raise LinkLost("no answer") from None
        except (errors.Error, OSError) as exc:
            raise LinkLost(_one_line(exc)) from None

    async def watch(self) -> None:
        await self._closed.wait()
        raise LinkLost(self._reason)

    async def close(self) -> None:
        from nats.aio.transport import TcpTransport

        # Closing waits until the server has read what was sent.
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._client.close()
        transport = self._client._transport
        if isinstance(transport, TcpTransport) and transport._io_writer is not None:
            transport._io_writer.transport.abort()
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)

    async def _flush(self) -> None:
        """Wait until the server has read everything."""
        # The client fails on a reply without a waiting caller, so the flush is never cancelled.
        self._flushing = asyncio.create_task(self._client.flush(_ANSWER_TIMEOUT_S))
        await asyncio.shield(self._flushing)

    def _subject(self, topic: Topic) -> str:
        return f"kore.{self._id}.{topic}"

    def _guarded(self, secret: str, scheme: str) -> Callable[[], str]:
        """Return the callback with which the client asks for the secret just before sending it."""

        def give() -> str:
            self._check_tls(scheme)
            return secret

        return give

    def _check_tls(self, scheme: str) -> None:
        # The client uses TLS only if the server requires it, regardless of the address.
        if scheme == "tls" and not self._client._server_info.get("tls_required"):
            raise LinkLost("the server does not require TLS, which bus.url names")

    async def _note_error(self, error: Exception) -> None:
        self._reason = _one_line(error)
        log.debug("NATS: %s", self._reason)

    async def _note_end(self) -> None:
        self._closed.set()


def _stop_if_cancelled() -> None:
    """Raise `CancelledError` if cancelled; the client swallows cancellation while it writes."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _plain(part: str | None) -> str | None:
    return None if part is None else unquote(part)
