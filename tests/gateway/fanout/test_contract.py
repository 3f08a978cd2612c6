"""Contract of `Fanout` on real servers."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gateway.fanout.base import FLUSH_TIMEOUT_S
from gateway.fanout.frames import FrameWriter, new_sender
from gateway.store.cipher import Cipher
from tests import postgres_server
from tests.gateway.fanout.buses import Bus, Member, PostgresBus, joined, nats_bus
from tests.gateway.parts import cancel_and_wait, wait_until
from tests.nats_server import needs_nats
from tests.postgres_server import PostgresServer

needs_postgres = pytest.mark.skipif(
    postgres_server.programs() is None, reason="PostgreSQL is not installed"
)
BUSES = [pytest.param("notify", marks=needs_postgres), pytest.param("nats", marks=needs_nats)]
SECRET = b"the launch code is 8-8-2-3-5"


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    """Return a list for one server, started on first use, that tests may kill."""
    started: list[PostgresServer] = []
    yield started
    for server in started:
        server.close()


@pytest.fixture(params=BUSES)
def bus(
    request: pytest.FixtureRequest, tmp_path: Path, servers: list[PostgresServer]
) -> Iterator[Bus]:
    if request.param == "nats":
        with nats_bus(tmp_path) as stream:
            yield stream
        return
    if not servers:
        servers.append(PostgresServer(is_durable=True))
    yield PostgresBus(servers[0])


def cipher(letter: bytes = b"k") -> Cipher:
    return Cipher(letter * 32, "KEY")


def numbered(name: str, count: int) -> list[bytes]:
    return [f"{name} {n}".encode() for n in range(count)]


async def test_messages_arrive_in_order(bus: Bus) -> None:
    async with joined(bus.fanout(), "front") as front, joined(bus.fanout()) as worker:
        worker.publish(*numbered("a", 3_000))
        await wait_until(lambda: len(front.messages) >= 3_000)
        # A message that is sent alone.
        worker.publish(b"last")
        await wait_until(lambda: len(front.messages) > 3_000)
        assert front.messages == [*numbered("a", 3_000), b"last"]
        assert (front.reconnects, worker.fanout.dropped_count) == (1, 0)


@pytest.mark.parametrize("keys", [None, cipher()], ids=["plain", "sealed"])
async def test_messages_may_have_any_size(bus: Bus, keys: Cipher | None) -> None:
    sizes = [0, 1, 5_900, 5_997, 5_998, 7_999, 8_000, 0, 127_990, 128_000, 1_048_577, 5_000_000, 3]
    messages = [bytes([n]) * size for n, size in enumerate(sizes)]
    async with joined(bus.fanout(keys), "front") as front, joined(bus.fanout(keys)) as worker:
        worker.publish(*messages)
        await wait_until(lambda: len(front.messages) >= len(messages))
        assert [len(message) for message in front.messages] == sizes
        assert front.messages == messages


async def test_every_listener_of_a_topic_gets_messages_of_every_sender(bus: Bus) -> None:
    async with AsyncExitStack() as stack:
        listeners = [
            await stack.enter_async_context(joined(bus.fanout(), "front")) for _ in range(2)
        ]
        other = await stack.enter_async_context(joined(bus.fanout(), "workers"))
        senders = [await stack.enter_async_context(joined(bus.fanout())) for _ in range(3)]
        for n in range(400):
            for name, sender in zip("abc", senders, strict=True):
                sender.publish(f"{name} {n}".encode())
                await asyncio.sleep(0)
        await wait_until(lambda: all(len(listener.messages) >= 1_200 for listener in listeners))
        senders[0].publish(b"for workers", topic="workers")
        await wait_until(lambda: other.messages)
        for listener in listeners:
            for name in "abc":
                mine = [
                    message for message in listener.messages if message.startswith(name.encode())
                ]
                assert mine == numbered(name, 400)
        assert other.messages == [b"for workers"]


async def test_process_gets_its_own_messages(bus: Bus) -> None:
    async with joined(bus.fanout(), "front", "workers") as stream:
        stream.publish(b"front")
        stream.publish(b"workers", topic="workers")
        await wait_until(lambda: len(stream.messages) >= 2)
        assert sorted(stream.messages) == [b"front", b"workers"]


async def test_other_kore_on_the_same_server_gets_nothing(bus: Bus) -> None:
    async with (
        joined(bus.fanout(kore=1), "front") as other,
        joined(bus.fanout(), "front") as front,
    ):
        front.publish(b"ours")
        await wait_until(lambda: front.messages)
        other.publish(b"theirs")
        await wait_until(lambda: other.messages)
        assert (front.messages, other.messages) == ([b"ours"], [b"theirs"])


async def test_lost_connections_are_reopened(bus: Bus) -> None:
    async with joined(bus.fanout(), "front") as front, joined(bus.fanout()) as worker:
        for round_ in range(3):
            await asyncio.to_thread(bus.cut)
            await wait_until(lambda n=round_: front.reconnects > n + 1)
            worker.publish(f"after {round_}".encode())
            await wait_until(lambda n=round_: front.messages[-1:] == [f"after {n}".encode()])


async def test_message_during_a_disconnect_is_delivered_once_or_reported(bus: Bus) -> None:
    async with joined(bus.fanout(), "front") as front, joined(bus.fanout()) as worker:
        cut = asyncio.create_task(asyncio.to_thread(bus.cut))
        sent = 0
        while not cut.done() or sent < 500:
            worker.publish(f"{sent:06}".encode() + bytes(20_000 if sent % 50 == 0 else 0))
            sent += 1
            await asyncio.sleep(0)
        await cut
        await wait_until(lambda: front.reconnects >= 2)
        worker.publish(b"end")
        await wait_until(lambda: front.messages[-1:] == [b"end"])
        numbers = [int(message[:6]) for message in front.messages[:-1]]
        assert numbers == sorted(set(numbers))
        assert all(len(message) in (6, 20_006) for message in front.messages[:-1])


async def test_oldest_messages_are_dropped_while_the_server_is_away(bus: Bus) -> None:
    # The member subscribes before it sends, so it receives everything that was retained.
    async with joined(bus.fanout(queue_bytes=20_000), "front") as stream:
        await asyncio.to_thread(bus.kill)
        await wait_until(lambda: stream.fanout._is_warned)
        stream.publish(*numbered("away", 1_000))
        dropped = stream.fanout.dropped_count
        assert 500 < dropped < 1_000
        await asyncio.to_thread(bus.start)
        await wait_until(lambda: stream.messages[-1:] == [b"away 999"])
        assert stream.messages == numbered("away", 1_000)[dropped:]
        assert (stream.reconnects, stream.fanout.dropped_count) == (2, dropped)


async def test_fanout_waits_for_a_server_that_starts_later(bus: Bus) -> None:
    await asyncio.to_thread(bus.kill)
    sender, listener = bus.fanout(), bus.fanout()
    async with joined(sender) as worker:
        await wait_until(lambda: sender._is_warned)
        worker.publish(b"early")
        start = asyncio.create_task(asyncio.to_thread(bus.start))
        async with joined(listener, "front") as front:
            await start
            worker.publish(b"late")
            await wait_until(lambda: front.messages[-1:] == [b"late"])


async def test_messages_sent_to_a_paused_server_arrive(bus: Bus) -> None:
    async with joined(bus.fanout(), "front") as front, joined(bus.fanout()) as worker:
        worker.publish(b"before")
        await wait_until(lambda: front.messages)
        await asyncio.to_thread(bus.stop)
        worker.publish(*numbered("while", 500))
        # The event loop stays free: this takes hundreds of iterations.
        for _ in range(500):
            await asyncio.sleep(0)
        assert front.messages == [b"before"]
        await asyncio.to_thread(bus.resume)
        await wait_until(lambda: len(front.messages) >= 501)
        assert front.messages == [b"before", *numbered("while", 500)]


async def test_shutdown_while_the_server_hangs(bus: Bus) -> None:
    fanout = bus.fanout()
    member = Member(fanout, ("front",))
    task = asyncio.create_task(fanout.run())
    await wait_until(lambda: member.reconnects)
    await asyncio.to_thread(bus.stop)
    try:
        member.publish(bytes(5_000_000))
        # The message is in flight.
        await wait_until(lambda: not fanout._queue)
        async with asyncio.timeout(10):
            await cancel_and_wait(task)
    finally:
        bus.resume()


@pytest.mark.parametrize("rounds", range(0, 24, 3))
async def test_shutdown_at_any_moment(
    bus: Bus, rounds: int, caplog: pytest.LogCaptureFixture
) -> None:
    for size in (10, 300_000):
        fanout = bus.fanout()
        member = Member(fanout, ("front",))
        task = asyncio.create_task(fanout.run())
        await wait_until(lambda one=member: one.reconnects)
        for _ in range(rounds):
            member.publish(bytes(size))
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await cancel_and_wait(task)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


@pytest.mark.slow
async def test_hanging_server_is_abandoned(bus: Bus) -> None:
    async with joined(bus.fanout(), "front") as front, joined(bus.fanout()) as worker:
        worker.publish(b"before")
        await wait_until(lambda: front.messages)
        await asyncio.to_thread(bus.stop)
        worker.publish(b"into the void")
        await wait_until(lambda: worker.fanout._is_warned, deadline_s=60)
        await asyncio.to_thread(bus.kill)
        await asyncio.to_thread(bus.start)
        await wait_until(lambda: front.reconnects >= 2, deadline_s=60)
        worker.publish(b"after")
        await wait_until(lambda: front.messages[-1:] == [b"after"])


async def test_sealed_messages_are_unreadable_in_transit(bus: Bus) -> None:
    async with (
        bus.raw("front") as seen,
        joined(bus.fanout(cipher()), "front") as front,
        joined(bus.fanout(cipher(b"x")), "front") as stranger,
    ):
        front.publish(SECRET, SECRET * 1_000)
        await wait_until(lambda: len(front.messages) >= 2 and seen)
        stranger.publish(b"mine")
        await wait_until(lambda: stranger.messages)
        assert seen
        assert not any(SECRET in item for item in seen)
        assert (front.messages, stranger.messages) == ([SECRET, SECRET * 1_000], [b"mine"])


async def test_messages_without_a_key_are_plain(bus: Bus) -> None:
    async with bus.raw("front") as seen, joined(bus.fanout(), "front") as front:
        front.publish(SECRET)
        await wait_until(lambda: front.messages and seen)
        assert any(SECRET in item for item in seen)


async def test_plain_message_is_rejected_with_a_key(bus: Bus) -> None:
    (plain,) = FrameWriter("front", new_sender(), None).frames([b"do evil"], 1_000)
    async with joined(bus.fanout(cipher()), "front") as front:
        await bus.send_raw("front", b64encode(plain) if isinstance(bus, PostgresBus) else plain)
        await bus.send_raw("front", b"anything")
        front.publish(b"true")
        await wait_until(lambda: front.messages)
        assert front.messages == [b"true"]


async def test_flush_returns_after_everything_is_sent(bus: Bus) -> None:
    fanout = bus.fanout()
    member = Member(fanout, ("front",))
    async with joined(bus.fanout(), "front") as front:
        task = asyncio.create_task(fanout.run())
        await wait_until(lambda: member.reconnects)
        await fanout.flush()
        member.publish(*numbered("a", 2_000), bytes(1_000_000))
        await fanout.flush()
        # Nothing more is sent: later arrivals were sent before.
        await cancel_and_wait(task)
        await wait_until(lambda: len(front.messages) >= 2_001)
        assert front.messages[:2_000] == numbered("a", 2_000)


async def test_flush_times_out_without_a_server(bus: Bus) -> None:
    async with joined(bus.fanout(), "front") as stream:
        await asyncio.to_thread(bus.stop)
        try:
            stream.publish(b"into the void", bytes(5_000_000))
            async with asyncio.timeout(FLUSH_TIMEOUT_S + 5):
                await stream.fanout.flush()
        finally:
            bus.resume()
