"""Benchmark of messages between processes over NOTIFY and NATS, and of NOTIFY's cost for commits.

Sender and receiver are separate processes, on loopback. PostgreSQL is on disk, with its default
durability. Needs PostgreSQL, and nats-server in the PATH.
"""

import asyncio
import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

from bench.figure import Figure, sampled
from gateway.fanout.base import Fanout
from gateway.fanout.opening import open_fanout
from gateway.store.postgres.connection import connect
from tests.nats_server import PROGRAM, NatsServer
from tests.postgres_server import PostgresServer

TOKEN_BYTES, LARGE_BYTES = 80, 100_000
# Per second: as many as 20 streaming answers.
TOKENS_S, LARGE_S = 500, 20
PACED = 2_000
# The capacity of a queue.
TOKENS, LARGE = 100_000, 250
COMMITTERS, COMMIT_S, ROUNDS = 16, 2.0, 4
SENDERS = 4
_STAMP = struct.Struct(">q")
# The concurrent stream, and the additional statement of each transaction.
_COMMITS: dict[str, tuple[str | None, str | None]] = {
    "a commit, nothing beside": (None, None),
    "a commit beside streams over NATS": ("nats", None),
    "a commit beside streams over NOTIFY": ("notify", None),
    # For comparison only: transactions that call pg_notify wait for each other, so Kore never does
    # this.
    "a commit that notifies": (None, "SELECT pg_notify('bench', %s)"),
}
_INSERT = "INSERT INTO bench (text) VALUES (%s)"


async def measure(command: Sequence[str]) -> list[Figure]:
    assert PROGRAM is not None, "nats-server is not in the PATH"
    figures: list[Figure] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        folder.chmod(0o755)
        server = PostgresServer(is_durable=True, parent=folder)
        stack.callback(server.close)
        store = server.create_database()
        nats = NatsServer(folder)
        nats.start()
        stack.callback(nats.kill)
        for name, bus in (("NOTIFY", None), ("NATS", nats.url)):
            figures += await _carried(name, bus, store)
        figures += await asyncio.to_thread(_commits, nats.url, store)
    return figures


async def _carried(name: str, bus: str | None, store: str) -> list[Figure]:
    figures = []
    for kind, size, rate, paced, count in (
        ("token", TOKEN_BYTES, TOKENS_S, PACED, TOKENS),
        ("100 KB", LARGE_BYTES, LARGE_S, 10 * LARGE_S, LARGE),
    ):
        latencies, _ = await _receive(bus, store, size, rate, paced)
        label = f"{name}: {kind}, {rate}/s"
        figures.append(sampled(label, "ms", [latency / 1e6 for latency in latencies]))
        _, taken_s = await _receive(bus, store, size, 0, count)
        figures.append(Figure(f"{name}: {kind}, all at once", "/s", count / taken_s))
    return figures


async def _receive(
    bus: str | None, store: str, size: int, rate: int, count: int
) -> tuple[list[int], float]:
    """Return nanoseconds from publish to receive of each, and seconds since the first publish."""
    loop, latencies, stamps = asyncio.get_running_loop(), [], []
    connected, is_complete = asyncio.Event(), asyncio.Event()

    def receive(message: bytes) -> None:
        (stamp,) = _STAMP.unpack_from(message)
        latencies.append(time.monotonic_ns() - stamp)
        stamps.append(stamp)
        if len(stamps) == count:
            is_complete.set()

    fanout = open_fanout(bus, store, None, "bench")
    fanout.subscribe("front", receive, connected.set)
    running = loop.create_task(fanout.run())
    await connected.wait()
    with _sender(bus, store, size, rate, count):
        async with asyncio.timeout(120):
            await is_complete.wait()
    ended_ns = time.monotonic_ns()
    running.cancel()
    await asyncio.wait({running})
    return latencies, (ended_ns - min(stamps)) / 1e9


@contextmanager
def _sender(bus: str | None, store: str, size: int, rate: int, count: int) -> Iterator[None]:
    """Run a process that publishes, `rate` a second (0: all at once), until the block ends."""
    context = get_context("spawn")
    stop = context.Event()
    process = context.Process(target=_send, args=(stop, bus, store, size, rate, count))
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join()


def _send(stop: Event, bus: str | None, store: str, size: int, rate: int, count: int) -> None:
    asyncio.run(_publish(stop, open_fanout(bus, store, None, "bench"), size, rate, count))


async def _publish(stop: Event, fanout: Fanout, size: int, rate: int, count: int) -> None:
    ready = asyncio.Event()
    fanout.subscribe("workers", lambda message: None, ready.set)
    running = asyncio.get_running_loop().create_task(fanout.run())
    await ready.wait()
    rest, began = bytes(size - _STAMP.size), time.monotonic()
    for n in range(count):
        fanout.publish("front", _STAMP.pack(time.monotonic_ns()) + rest)
        if rate:
            await asyncio.sleep(max(0.0, began + (n + 1) / rate - time.monotonic()))
            if stop.is_set():
                break
        elif n % 100 == 0:
            await asyncio.sleep(0)
    while not stop.is_set():
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait({running})


def _commits(nats: str, store: str) -> list[Figure]:
    """Measure threads that commit row after row, alone and during streams of other processes."""
    with closing(connect(store)) as connection:
        connection.execute("CREATE TABLE bench (n bigserial PRIMARY KEY, text text)")
    # Alternate, because the machine's speed varies over time.
    durations_ms: dict[str, list[float]] = {name: [] for name in _COMMITS}
    for _ in range(ROUNDS):
        for name, (stream, statement) in _COMMITS.items():
            with ExitStack() as stack:
                for _ in range(SENDERS if stream else 0):
                    bus = nats if stream == "nats" else None
                    stack.enter_context(_sender(bus, store, TOKEN_BYTES, TOKENS_S, 10**9))
                durations_ms[name] += _committed_ms(store, statement)
    return [_commit_figure(name, result) for name, result in durations_ms.items()]


def _commit_figure(name: str, taken: list[float]) -> Figure:
    rate = len(taken) / COMMIT_S / ROUNDS
    return sampled(name, "ms", taken, note=f"{rate:.0f} a second by {COMMITTERS} connections")


def _committed_ms(store: str, within: str | None) -> list[float]:
    results: list[float] = []
    # New processes and threads need a moment to start.
    begin = time.monotonic() + 1.0

    def commit() -> None:
        with closing(connect(store)) as connection:
            while (now := time.monotonic()) < begin + COMMIT_S:
                connection.execute("BEGIN")
                connection.execute(_INSERT, ("x" * 300,))
                if within is not None:
                    connection.execute(within.encode(), (str(now),))
                connection.execute("COMMIT")
                if now >= begin:
                    results.append((time.monotonic() - now) * 1000)

    threads = [threading.Thread(target=commit) for _ in range(COMMITTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
