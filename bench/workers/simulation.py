"""Simulation of a million chats, with the costs measured by `python -m bench scale`.

`python -m bench.workers.simulation` prints a table for some loads. Each Kore is a network of
queues: the front (one core: it is one Python process) receives a message and later sends the
answer, a worker (one core, with a limit of concurrent turns) works before and after the model, and
PostgreSQL (its cores) stores each of these steps. Messages arrive as a Poisson process at the rate
of the daily peak. docs/scaling.md lists the omissions.
"""

import argparse
import math
import random
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush, heapreplace
from itertools import count

from bench.figure import percentile

DAY_S = 86_400
# Share of a core or of a worker's turns: a higher share leaves no room for peaks.
BUSY_AT_MOST = 0.6
WARM_UP_S = 40.0
# Telegram's rate limit for bots that do not pay: https://core.telegram.org/bots/faq
SENT_S = 30


@dataclass(frozen=True, slots=True)
class TurnCost:
    """Cost of one turn: CPU time in ms by process, and PostgreSQL's work."""

    front_ms: float
    worker_ms: float
    postgres_ms: float
    transactions: float
    statements: float
    wal_bytes: float
    hints: float
    # Per process, also when idle.
    connections: int = 6
    turns_at_once: int = 128


# With 2 workers, and with 8. The latter are too many for two busy cores: their transactions last
# longer, and more of them are retried.
MEASURED = TurnCost(
    front_ms=5.1,
    worker_ms=14.0,
    postgres_ms=9.8,
    transactions=8.9,
    statements=67,
    wal_bytes=11_000,
    hints=4.8,
)
CROWDED = TurnCost(
    front_ms=4.5,
    worker_ms=18.0,
    postgres_ms=13.8,
    transactions=11.2,
    statements=86,
    wal_bytes=15_200,
    hints=5.1,
)


@dataclass(frozen=True, slots=True)
class Load:
    """Load of `chats` that write `daily` messages each.

    At the peak of the day it is `peak` times the average. A model needs `model_s` on average,
    lognormal with a deviation of `sigma`.
    """

    chats: int
    daily: float
    peak: float = 3.0
    model_s: float = 5.0
    sigma: float = 0.8

    @property
    def turns_s(self) -> float:
        return self.chats * self.daily * self.peak / DAY_S


@dataclass(frozen=True, slots=True)
class Plan:
    """Number of Kores, and of workers and cores in each."""

    kores: int
    workers: int  # of each Kore
    postgres_cores: int  # of each Kore


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result for one Kore at the peak.

    `waits_ms` are the times from message to answer minus the model's. By the name of the queue,
    `busy` is the share of time that servers work, `queue` the average number of waiting requests,
    and `wait_s` their wait.
    """

    turns_s: float
    in_flight: float
    mean_s: float
    waits_ms: Sequence[float]
    busy: Mapping[str, float]
    queue: Mapping[str, float]
    wait_s: Mapping[str, float]


class Servers:
    """One queue for `count` servers, first come, first served. Times must be in order."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free_at = [0.0] * count
        self.forget()

    def forget(self) -> None:
        """Reset the counters."""
        self.busy_s = self.waited_s = 0.0
        self.visits = 0

    def serve(self, now: float, service_s: float) -> float:
        """Return the time when a request that arrives now is done."""
        begin = max(now, self._free_at[0])
        heapreplace(self._free_at, begin + service_s)
        self.busy_s += service_s
        self.waited_s += begin - now
        self.visits += 1
        return begin + service_s


@dataclass(slots=True)
class SimulatedWorker:
    """Worker with a limited number of concurrent turns; further turns wait."""

    cpu: Servers
    room: int
    waiting: deque["tuple[float, Turn]"]


# Yields the time at which it continues, or the worker that must have room; receives the current
# time.
Turn = Generator[float | SimulatedWorker, float, None]


class Simulation:
    """Simulation; `run` it once, for `length_s` after `WARM_UP_S`, which is not measured."""

    def __init__(
        self, turns_s: float, load: Load, cost: TurnCost, plan: Plan, *, seed: int = 1
    ) -> None:
        self._turns_s, self._load, self._cost = turns_s, load, cost
        self._chance = random.Random(seed)
        self._front, self._postgres = Servers(1), Servers(plan.postgres_cores)
        self._workers = [
            SimulatedWorker(Servers(1), cost.turns_at_once, deque()) for _ in range(plan.workers)
        ]
        self._turns: list[tuple[float, int, Turn]] = []
        self._numbers = count()
        self._in_flight, self._changed_at = 0, 0.0
        # Its mean is e^(mu + sigma² / 2).
        self._mu = math.log(load.model_s) - load.sigma**2 / 2
        self._forget(0.0)

    def run(self, length_s: float) -> Outcome:
        self._run_until(WARM_UP_S)
        self._forget(WARM_UP_S)
        self._run_until(WARM_UP_S + length_s)
        self._change(WARM_UP_S + length_s, 0)
        queues = {
            "front": [self._front],
            "worker": [worker.cpu for worker in self._workers],
            "PostgreSQL": [self._postgres],
        }
        waited = {
            name: sum(servers.waited_s for servers in queue) for name, queue in queues.items()
        }
        return Outcome(
            turns_s=len(self._waits_ms) / length_s,
            in_flight=self._area_s / length_s,
            mean_s=self._took_s / len(self._waits_ms),
            waits_ms=self._waits_ms,
            busy={
                name: min(
                    1.0,
                    sum(servers.busy_s for servers in queue)
                    / sum(item.count for item in queue)
                    / length_s,
                )
                for name, queue in queues.items()
            },
            queue={
                **{name: seconds / length_s for name, seconds in waited.items()},
                "room": self._waited_s / length_s,
            },
            wait_s={
                name: waited[name] / sum(servers.visits for servers in queue)
                for name, queue in queues.items()
            },
        )

    def _forget(self, now: float) -> None:
        """Reset the counters at the end of the warm-up."""
        self._waits_ms: list[float] = []
        self._took_s = self._waited_s = self._area_s = 0.0
        self._changed_at = now
        for servers in (self._front, self._postgres, *(worker.cpu for worker in self._workers)):
            servers.forget()

    def _run_until(self, end: float) -> None:
        if not self._turns:
            self._continue(self._arrivals(), None)
        while self._turns[0][0] < end:
            now, _, turn = heappop(self._turns)
            self._continue(turn, now)

    def _continue(self, turn: Turn, now: float | None) -> None:
        """Advance a turn until it has to wait."""
        try:
            step = next(turn) if now is None else turn.send(now)
            while isinstance(step, SimulatedWorker):
                assert now is not None, "a turn has begun"
                if not step.room:
                    step.waiting.append((now, turn))
                    return
                step.room -= 1
                step = turn.send(now)
        except StopIteration:
            return
        heappush(self._turns, (step, next(self._numbers), turn))

    def _arrivals(self) -> Turn:
        now = 0.0
        while True:
            now = yield now + self._chance.expovariate(self._turns_s)
            self._change(now, 1)
            turn = self._turn(now)
            heappush(self._turns, (next_step(turn), next(self._numbers), turn))

    def _turn(self, began: float) -> Turn:
        cost = self._cost
        now = yield self._front.serve(began, self._service_s(cost.front_ms / 2))
        now = yield self._store(now)
        worker = self._chance.choice(self._workers)
        if not worker.room:
            worker = max(self._workers, key=lambda item: item.room)
        now = yield worker
        now = yield worker.cpu.serve(now, self._service_s(cost.worker_ms / 2))
        now = yield self._store(now)
        model_s = self._chance.lognormvariate(self._mu, self._load.sigma)
        now = yield now + model_s
        now = yield worker.cpu.serve(now, self._service_s(cost.worker_ms / 2))
        now = yield self._store(now)
        self._leave(worker, now)
        now = yield self._front.serve(now, self._service_s(cost.front_ms / 2))
        now = yield self._store(now)
        self._change(now, -1)
        self._waits_ms.append((now - began - model_s) * 1000)
        self._took_s += now - began

    def _store(self, now: float) -> float:
        """Return the time when one of the turn's four stores is done."""
        return self._postgres.serve(now, self._service_s(self._cost.postgres_ms / 4))

    def _service_s(self, mean_ms: float) -> float:
        return self._chance.expovariate(1000 / mean_ms) if mean_ms else 0.0

    def _leave(self, worker: SimulatedWorker, now: float) -> None:
        worker.room += 1
        if worker.waiting:
            since, turn = worker.waiting.popleft()
            self._waited_s += now - since
            worker.room -= 1
            self._continue(turn, now)

    def _change(self, now: float, change: int) -> None:
        self._area_s += self._in_flight * (now - self._changed_at)
        self._in_flight += change
        self._changed_at = now


def next_step(turn: Turn) -> float:
    """Start a turn; return the time when the front is done with its first step."""
    step = next(turn)
    assert isinstance(step, float), "the front is first"
    return step


def plan_for(load: Load, cost: TurnCost) -> Plan:
    """Return a plan in which nothing is busier than `BUSY_AT_MOST`."""

    def needed(milliseconds: float, turns_s: float) -> int:
        return max(1, math.ceil(turns_s * milliseconds / 1000 / BUSY_AT_MOST))

    kores = needed(cost.front_ms, load.turns_s)
    turns_s = load.turns_s / kores
    room_ms = load.model_s * 1000 / cost.turns_at_once
    workers = max(needed(cost.worker_ms, turns_s), needed(room_ms, turns_s))
    return Plan(kores, workers, needed(cost.postgres_ms, turns_s))


def table(loads: Sequence[tuple[Load, Plan]], cost: TurnCost, length_s: float, seed: int) -> str:
    """Return a Markdown table with a column for each load."""
    columns = [_column(load, plan, cost, length_s, seed) for load, plan in loads]
    lines = [" | ".join([name, *(column[name] for column in columns)]) for name in columns[0]]
    lines.insert(1, " | ".join(["---"] * (len(columns) + 1)))
    return "\n".join(f"| {line} |" for line in lines)


def _column(load: Load, plan: Plan, cost: TurnCost, length_s: float, seed: int) -> dict[str, str]:
    outcome = Simulation(load.turns_s / plan.kores, load, cost, plan, seed=seed).run(length_s)
    turns_s, kores, processes = load.turns_s / plan.kores, plan.kores, plan.workers + 1
    p50, p99 = (percentile(outcome.waits_ms, share) for share in (0.5, 0.99))

    def summed(each: float, unit: str = "", digits: int = 0) -> str:
        return f"{each:,.{digits}f} / {each * kores:,.{digits}f}{unit}"

    return {
        "": f"{load.chats:,} chats, {load.daily:g} a day",
        "turns a second at the peak": f"{load.turns_s:,.0f}",
        "bots, if each may send 30 messages a second": f"{math.ceil(load.turns_s / SENT_S)}",
        "Kores: each a front, its workers and a database": f"{kores}",
        "workers, each / all": summed(plan.workers),
        "cores of PostgreSQL, each / all": summed(plan.postgres_cores),
        "turns in flight, each / all": summed(outcome.in_flight),
        "busy: front, worker, PostgreSQL": _listed(outcome.busy, 100, " %"),
        "queue: front, worker, PostgreSQL, room": _listed(outcome.queue),
        "message to answer less the model's time, p50 / p99": f"{p50:,.0f} / {p99:,.0f} ms",
        "connections, each / all": summed(processes * cost.connections),
        "transactions a second, each / all": summed(turns_s * cost.transactions),
        "statements a second, each / all": summed(turns_s * cost.statements),
        "WAL, each / all": summed(turns_s * cost.wal_bytes / 1e6, " MB/s", 1),
        "hints sent a second, each / all": summed(turns_s * cost.hints),
    }


def _listed(values: Mapping[str, float], factor: float = 1.0, unit: str = "") -> str:
    return ", ".join(f"{value * factor:,.{0 if unit else 2}f}{unit}" for value in values.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the peak (60)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    loads = [
        (load, plan_for(load, MEASURED))
        for load in (Load(100_000, 5), Load(1_000_000, 5), Load(1_000_000, 50))
    ]
    print(table(loads, MEASURED, options.seconds, options.seed))
    print("\nWith what a turn costs where processes are crowded:\n")
    loads = [(load, plan_for(load, CROWDED)) for load, _ in loads]
    print(table(loads, CROWDED, options.seconds, options.seed))
    # On one front, with spare capacity everywhere else.
    most_s = 1000 / MEASURED.front_ms
    print(f"\nOne front, which can do {most_s:,.0f} turns a second:\n")
    crowds = []
    for share in (0.8, 0.95, 1.1):
        load = Load(round(share * most_s * DAY_S / 5 / 3), 5)
        plan = plan_for(load, MEASURED)
        crowds.append((load, replace(plan, kores=1, workers=2 * plan.workers, postgres_cores=16)))
    print(table(crowds, MEASURED, options.seconds, options.seed))


if __name__ == "__main__":
    main()
