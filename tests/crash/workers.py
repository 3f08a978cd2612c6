"""`python -m tests.crash.workers`: a gateway and four workers on one PostgreSQL database.

Workers and the gateway are killed, and workers are stopped (SIGSTOP) for longer than their lease
and woken once others have gone on with their turns. No message may be lost, answered out of order,
or answered twice without a mark, and no effect may be repeated.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from gateway.control.replacement import REPLACED
from tests import postgres_server
from tests.crash.jobs import OWNER, Account, Ledger, plan, settle
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_mind import worker
from tests.gateway.end_to_end.gateway_process import KEY, GatewayProcess

# Far above what a busy machine keeps a thread waiting for.
LEASE_S = 3.0
WORKERS = 4
_CHATS = 24
_LATENCY_S = 0.05
_LATEST_S = 0.3
TAKES_TURNS, JOINS = "taking turns", " joins "
_SHARES = {"worker killed": 0.6, "worker stopped": 0.2, "gateway killed": 0.2}


class WorkerLoop:
    """`account = await WorkerLoop(kills, messages, seed, folder).run()`"""

    def __init__(self, kills: int, messages: int, seed: int, folder: Path) -> None:
        self._kills, self._folder = kills, folder
        self._chance = random.Random(seed)
        planned = plan(messages, _CHATS, self._chance)
        # Nobody presses, and commands are another loop's.
        self._jobs = [replace(job, asks=False, runs=False) for job in planned]
        self._jobs_begun = 0
        self._account = Account(messages)
        # How often each worker had begun before its present life.
        self._lives: dict[Path, int] = {}
        self._workspace = folder / "workspace"

    async def run(self) -> Account:
        """Returns once every message is answered."""
        (self._workspace / "effects").mkdir(parents=True)
        mind = worker(Path("effects"), tool="append_file")
        async with BotApi() as self._api, ModelServer(mind, api_key=KEY) as self._model:
            self._model.latency_s = _LATENCY_S
            self._model.keep = 20
            sections = {
                "store": {"url": postgres_server.create_database(), "lease_s": LEASE_S},
                "agent": {"workspace": str(self._workspace)},
                "access": {"owner": f"telegram:{OWNER}", "roles": {"telegram": "build"}},
                "telegram": {"rate_limits": "none"},
            }
            self._front = self._process("front", "gateway", ["--workers", "0"], sections)
            self._workers = [
                self._process(f"worker{n}", "worker", [], sections) for n in range(WORKERS)
            ]
            await self._front.start()
            for one in self._workers:
                await self._launch(one)
            for one in self._workers:
                await one.until(lambda one=one: self._is_at_work(one))
            while self._account.kills < self._kills:
                await self._ask((self._account.kills + 1) / self._kills)
                await asyncio.sleep(self._chance.uniform(0, _LATEST_S))
                await self._fail()
            everything, ledger = {job.number for job in self._jobs}, Ledger(self._api)
            await self._front.until(lambda: ledger.done() >= everything)
            await self._front.idle()
            for one in self._workers:
                one.signal(signal.SIGTERM)
                assert await one.exit_code() == 0, one.log_text()
            await self._front.stop()
            answers = {chat: self._api.answers(chat) for chat in range(1, _CHATS + 1)}
        settle(self._account, self._jobs, answers, self._workspace / "effects")
        return self._account

    def _process(
        self, name: str, verb: str, words: list[str], sections: dict[str, dict[str, object]]
    ) -> GatewayProcess:
        machine = self._folder / name
        machine.mkdir()
        return GatewayProcess(
            *(machine, self._api, self._model, sections),
            verb=verb,
            words=words,
            runtime_dir=machine,
        )

    async def _ask(self, share: float) -> None:
        """Send what belongs to this life."""
        for job in self._jobs[self._jobs_begun : round(len(self._jobs) * share)]:
            await self._api.user_says(job.chat, job.text)
            self._jobs_begun += 1

    async def _fail(self) -> None:
        name = self._chance.choices(list(_SHARES), list(_SHARES.values()))[0]
        self._account.kills += 1
        self._account.kills_at[name] = self._account.kills_at.get(name, 0) + 1
        one = self._chance.choice(self._workers)
        if name == "gateway killed":
            await self._front.kill()
            await self._front.start()
        elif name == "worker killed":
            # The gateway beside it polls on.
            one.signal(signal.SIGKILL)
            await one.exit_code()
            await self._launch(one)
        else:
            await one.until(lambda: self._is_at_work(one))
            one.signal(signal.SIGSTOP)
            await asyncio.sleep(LEASE_S + self._chance.uniform(0.5, 2))
            one.signal(signal.SIGCONT)
            code = await one.exit_code()
            assert code == REPLACED, f"it ended with {code}:\n{one.log_text()}"
            await self._launch(one)

    async def _launch(self, one: GatewayProcess) -> None:
        self._lives[one.home] = self._joined(one)
        await one.launch()

    def _joined(self, one: GatewayProcess) -> int:
        return one.log_text().count(JOINS)

    def _is_at_work(self, one: GatewayProcess) -> bool:
        """Whether this life has begun, and what ends a worker that was replaced runs."""
        *_, life = one.log_text().split(JOINS)
        begun = self._joined(one) > self._lives[one.home]
        return begun and (TAKES_TURNS in life or "waiting for" in life)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kore-crash-"))
    began = time.monotonic()
    loop = WorkerLoop(options.kills, options.messages, options.seed, folder)
    account = asyncio.run(loop.run())
    print(account.report())
    print(f"seed {options.seed}, {time.monotonic() - began:.0f} s, files in {folder}")
    return 0 if account.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
