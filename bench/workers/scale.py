"""Cost and throughput of turns: plain gateways, and a front with workers.

Everything is a process on this machine, and PostgreSQL is on disk, with its default durability. CPU
time is the kernel's, statements are counted by PostgreSQL (pg_stat_statements). The idle cost is
measured first and subtracted from the cost of a turn.
"""

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench.figure import Figure, percentile
from bench.process import Running
from bench.stage import ACCOUNT, OWNER, Stage, open_stage, until
from gateway.fanout.opening import open_fanout
from gateway.store.postgres.connection import connect
from gateway.workers.hints import decode
from tests.postgres_server import PostgresServer

LATENCY_MS = 200
WORKERS = (1, 2, 4, 8)
# Chats that write again as soon as they are answered, and the total number of turns.
CHATS, TURNS = 40, 200
# Messages at a steady pace, slower than any setup can answer: latency without load.
PACED, PACED_S = 24, 0.25
REST_S = 3.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LOST_RACE = "could not serialize"


async def measure(command: Sequence[str]) -> list[Figure]:
    runs: list[Measured] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        folder.chmod(0o755)
        server = PostgresServer(is_durable=True, parent=folder)
        stack.callback(server.close)
        _count_statements(server)
        _fill(server)
        runs.append(await _run("SQLite", command, None, None))
        runs.append(await _run("PostgreSQL", command, server, None))
        for workers in WORKERS:
            runs.append(await _run(f"{workers} workers", command, server, workers))
    return [figure for run in runs for figure in run.figures(runs[0])]


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters at a point in time.

    CPU time is in milliseconds by process; PostgreSQL's work and hints are counted by kind.
    """

    at: float
    cpu_ms: Mapping[str, float]
    done: Mapping[str, float]
    hints: Mapping[str, int]

    def since(self, earlier: "Counts") -> "Counts":
        """Return the difference from an earlier point in time."""
        return Counts(
            self.at - earlier.at,
            {name: value - earlier.cpu_ms[name] for name, value in self.cpu_ms.items()},
            {name: value - earlier.done[name] for name, value in self.done.items()},
            {name: value - earlier.hints.get(name, 0) for name, value in self.hints.items()},
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured counters: `rest` during `REST_S` without work, `busy` during `TURNS` turns."""

    name: str
    workers: int | None
    rest: Counts
    busy: Counts
    ease_ms: Sequence[float]
    crowd_ms: Sequence[float]

    def figures(self, first: "Measured") -> list[Figure]:
        """Return the figures, compared with the `first` setup."""
        rate, bare = TURNS / self.busy.at, TURNS / first.busy.at
        stand_ins = ", ".join(
            f"{name} {self.busy.cpu_ms[name] / self.busy.at / 10:.0f} %"
            for name in ("model", "bot API")
        )
        figures = [
            Figure(f"{self.name}: turns", "/s", rate, bare=bare, note=f"of a core: {stand_ins}"),
            *(
                Figure(
                    f"{self.name}: {what}", "ms", percentile(result, 0.5), percentile(result, 0.95)
                )
                for what, result in (
                    ("answer at ease", self.ease_ms),
                    (f"answer with {CHATS} at once", self.crowd_ms),
                )
            ),
        ]
        total = 0.0
        for process in ("front", "workers", "PostgreSQL"):
            if process in self.busy.cpu_ms:
                total += self.per_turn("cpu_ms", process)
                label = f"{self.name}: CPU of {process}, per turn"
                figures.append(Figure(label, "ms", self.per_turn("cpu_ms", process)))
        whole = sum(first.per_turn("cpu_ms", name) for name in ("front",))
        figures.append(Figure(f"{self.name}: CPU, per turn", "ms", total, bare=whole))
        at_rest = sum(
            self.rest.cpu_ms.get(name, 0.0) for name in ("front", "workers", "PostgreSQL")
        )
        figures.append(Figure(f"{self.name}: CPU at rest", "ms/s", at_rest / self.rest.at))
        for what in self.busy.done:
            figures.append(
                Figure(f"{self.name}: {what}, per turn", "", self.per_turn("done", what))
            )
            rest = self.rest.done[what] / self.rest.at
            figures.append(Figure(f"{self.name}: {what} at rest", "/s", rest))
        if self.busy.hints:
            kinds = ", ".join(
                f"{kind} {count / TURNS:.2f}" for kind, count in sorted(self.busy.hints.items())
            )
            hints = sum(self.busy.hints.values()) / TURNS
            figures.append(Figure(f"{self.name}: hints, per turn", "", hints, note=kinds))
        return figures

    def per_turn(self, kind: str, name: str) -> float:
        """Return the count per turn, minus the idle share."""
        rest, busy = getattr(self.rest, kind)[name], getattr(self.busy, kind)[name]
        return float((busy - rest * self.busy.at / self.rest.at) / TURNS)


async def _run(
    name: str, command: Sequence[str], server: PostgresServer | None, workers: int | None
) -> Measured:
    async with (
        open_stage(command, latency_ms=LATENCY_MS, keep=1) as stage,
        AsyncExitStack() as more,
    ):
        hints: Counter[str] = Counter()
        address = None
        if server is not None:
            address = server.create_database()
            stage.configure({"store": {"url": address}})
            await more.enter_async_context(_counted_hints(address, hints))
        words = () if workers is None else ("--workers", str(workers))
        front = await more.enter_async_context(stage.gateway(*words))
        if address is not None and workers:
            await until(partial(asyncio.to_thread, _are_at_work, address, workers), 240)
            # Wait for the front's next check, which includes them.
            await asyncio.sleep(1.5)
        for n in range(3):
            await stage.turn_ms(OWNER, f"warm-up {n}", await stage.effects())
        probe = _Probe(stage, front, server, address, hints, bool(workers))
        await _crowd(stage, CHATS, 2 * CHATS)
        await asyncio.sleep(1.0)
        before = await asyncio.to_thread(probe.counts)
        await asyncio.sleep(REST_S)
        rest = (await asyncio.to_thread(probe.counts)).since(before)
        ease_ms = await _paced(stage)
        before = await asyncio.to_thread(probe.counts)
        crowd_ms = await _crowd(stage, CHATS, TURNS)
        busy = (await asyncio.to_thread(probe.counts)).since(before)
    return Measured(name, workers, rest, busy, ease_ms, crowd_ms)


async def _paced(stage: Stage) -> list[float]:
    """Return milliseconds from delivery to answer of messages at a steady pace.

    Each message is from a different chat.
    """
    since, began = await stage.effects(), time.monotonic()
    result: dict[int, float] = {}
    for n in range(PACED):
        chat = _chat(n % CHATS)
        result[n] = await stage.say(chat, f"paced {n}")
        await asyncio.sleep(max(0.0, began + (n + 1) * PACED_S - time.monotonic()))
    answers, _ = await stage.answers(since, PACED)
    return [
        (answer["time"] - result[int(answer["text"].rpartition(" ")[2])]) * 1000
        for answer in answers
    ]


async def _crowd(stage: Stage, chats: int, turns: int) -> list[float]:
    """Return milliseconds of each turn, where every chat writes again as soon as it is answered."""
    since = await stage.effects()
    numbers = iter(range(turns))
    result: dict[int, float] = {}

    async def say(chats: Sequence[int]) -> None:
        messages = [(chat, n) for chat, n in zip(chats, numbers, strict=False)]
        if messages:
            outcome = await stage.bot.post(
                "user_says", [{"chat_id": chat, "text": f"crowd {n}"} for chat, n in messages]
            )
            result.update({n: one["at"] for (_, n), one in zip(messages, outcome, strict=True)})

    await say([_chat(n) for n in range(chats)])
    results: list[float] = []
    while len(results) < turns:
        answers, since = await stage.answers(since)
        for answer in answers:
            results.append((answer["time"] - result[int(answer["text"].rpartition(" ")[2])]) * 1000)
        await say([answer["chat_id"] for answer in answers])
    return results


def _chat(n: int) -> int:
    return n * 487 % OTHERS * 1000 + 500


@dataclass(frozen=True, slots=True)
class _Probe:
    stage: Stage
    front: Running
    server: PostgresServer | None
    address: str | None
    hints: Counter[str]
    has_workers: bool

    def counts(self) -> Counts:
        model, bot = self.stage.servers
        cpu_ms = {"model": model.cpu_ms(), "bot API": bot.cpu_ms(), "front": self.front.cpu_ms()}
        if self.has_workers:
            children = _children(self.front.process.pid)
            cpu_ms["workers"] = sum(_cpu_ms(child) for child in children)
        done: dict[str, float] = {}
        if self.server is not None and self.address is not None:
            postmaster = int((self.server.data / "postmaster.pid").read_text().splitlines()[0])
            processes = [postmaster, *_children(postmaster)]
            cpu_ms["PostgreSQL"] = sum(map(_cpu_ms, processes)) + _cpu_ms(postmaster, ended=True)
            done = _postgres_counts(self.server, urlsplit(self.address).path[1:])
            log = (self.server.folder / "log").read_text(errors="replace")
            done["re-runs"] = log.count(_LOST_RACE)
        return Counts(time.monotonic(), cpu_ms, done, dict(self.hints))


_DONE = """
SELECT coalesce(sum(calls), 0),
  coalesce(sum(calls) FILTER (WHERE query LIKE 'BEGIN ISOLATION%%'), 0),
  coalesce(sum(rows) FILTER (WHERE query LIKE 'UPDATE last_commit%%'), 0),
  coalesce(sum(calls) FILTER (WHERE query LIKE '%%pg_notify%%'), 0),
  pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')
FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = %s)
"""


def _postgres_counts(server: PostgresServer, name: str) -> dict[str, float]:
    """Read the counters over a connection to another database, whose statements are not counted."""
    with closing(connect(server.address("postgres"))) as connection:
        row = connection.execute(_DONE, (name,)).fetchone()
    assert row is not None, "one row of sums"
    names = ("statements", "transactions", "writing transactions", "NOTIFY", "WAL bytes")
    return dict(zip(names, map(float, row), strict=True))


def _count_statements(server: PostgresServer) -> None:
    """Enable statement statistics, and a log of transactions that lost a race."""
    with closing(connect(server.address("postgres"))) as connection:
        for setting in (
            "shared_preload_libraries = 'pg_stat_statements'",
            "log_line_prefix = '%a '",
        ):
            connection.execute(f"ALTER SYSTEM SET {setting}".encode())
    server.stop("fast")
    server.start()
    with closing(connect(server.address("postgres"))) as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements")


# Number of other chats, and of finished turns in each.
OTHERS, OTHERS_TURNS = 5_000, 10
# The measured chats are spread among them, as in real use.
_LANE = f"'telegram:{ACCOUNT}:' || (n % {{0}}) * 1000"
_ROWS = (
    "INSERT INTO session (id, principal, home_lane, created_at, last_active_at) SELECT"
    " md5((n % {0})::text), 'telegram:' || n, "
    + _LANE
    + ", 0, n FROM generate_series(0, {0} - 1) n",
    "INSERT INTO binding SELECT home_lane, id FROM session",
    "INSERT INTO turn (session, lane, state, created_at, ended_at)"
    " SELECT md5((n % {0})::text), " + _LANE + ", 'done', 0, 0 FROM generate_series(1, {1}) n",
    "INSERT INTO inbox (channel, account, event_id, source_message_id, lane, principal, payload,"
    " received_at, turn_id) SELECT 'telegram', '0', n::text, n::text, " + _LANE + ","
    " 'telegram:' || (n % {0}), '{{}}', 0, n FROM generate_series(1, {1}) n",
    "INSERT INTO outbox (delivery_id, part, turn_id, lane, channel, account, chat, kind, body,"
    " state, provider_message_id, created_at) SELECT md5(n::text), 0, n, " + _LANE + ", 'telegram',"
    " '0', n, 'final', 'an answer', 'sent', n::text, 0 FROM generate_series(1, {1}) n",
    "INSERT INTO message (session, n, turn_id, role, content, created_at) SELECT"
    " md5((n % {0})::text), n / {0} * 2 + half, n, 'user', '[]', 0"
    " FROM generate_series(1, {1}) n, generate_series(0, 1) half",
    "INSERT INTO usage (turn_id, n, session, lane, chat, principal, model, input, output, cached,"
    " cost_nusd, is_estimated, at, by_turn) SELECT n, 1, md5((n % {0})::text), " + _LANE + ","
    " 'telegram:0:' || (n % {0}), 'telegram:' || (n % {0}), 'm', 1, 1, 0, 0, 0, 0, n"
    " FROM generate_series(1, {1}) n",
)


def _fill(server: PostgresServer) -> None:
    """Fill the template database with old turns.

    Each index of an empty database is a single page, which all transactions would share.
    """
    with closing(connect(server.address("kore_template"))) as connection:
        connection.execute("SET session_replication_role = replica")
        for row in _ROWS:
            connection.execute(row.format(OTHERS, OTHERS * OTHERS_TURNS).encode())
        connection.execute("VACUUM ANALYZE")


def _are_at_work(address: str, workers: int) -> bool:
    with closing(connect(address)) as connection:
        row = connection.execute(
            "SELECT count(*) FROM worker WHERE is_ended = 0 AND state <> '{}'"
        ).fetchone()
    return row == (workers,)


@asynccontextmanager
async def _counted_hints(address: str, counts: Counter[str]) -> AsyncIterator[None]:
    """Count hints by listening like Kore's processes."""

    def count(message: bytes) -> None:
        counts[type(decode(message)).__name__] += 1

    fanout, connected = open_fanout(None, address, None, "bench"), asyncio.Event()
    fanout.subscribe("front", count, connected.set)
    fanout.subscribe("workers", count, connected.set)
    running = asyncio.get_running_loop().create_task(fanout.run())
    await connected.wait()
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for file in tasks for child in file.read_text().split()]


def _cpu_ms(process: int, *, ended: bool = False) -> float:
    """Return user and system time of a process, or of its children that have ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    first = 13 if ended else 11
    return (int(stat[first]) + int(stat[first + 1])) * 1000 / _TICKS_PER_S
