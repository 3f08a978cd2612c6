"""`python -m tests.crash.standby`: two gateways on one PostgreSQL database.

One is active, the other on standby. The active one is killed, or stopped (SIGSTOP) for longer than
its lease and woken once the other has taken over. No message may be lost, none answered twice
without a mark, no effect repeated, and a gateway that was replaced must exit on its own.
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

# Far above the time that a busy machine delays a thread.
LEASE_S = 3.0
_STOP_SHARE = 0.3
_LATEST_S = 0.5
_CHATS = 12
_LATENCY_S = 0.02
STANDS_BY, AT_WORK = "standing by", " is running: "


class StandbyLoop:
    """Loop over kills: `account = await StandbyLoop(kills, messages, seed, folder).run()`."""

    def __init__(self, kills: int, messages: int, seed: int, folder: Path) -> None:
        self._kills, self._folder = kills, folder
        self._chance = random.Random(seed)
        planned = plan(messages, _CHATS, self._chance)
        # Skip approvals, because the owner never presses buttons here, and commands, which another
        # loop tests.
        self._jobs = [replace(job, asks=False, runs=False) for job in planned]
        self._jobs_begun = 0
        self._account = Account(messages)
        self._workspace = folder / "workspace"

    async def run(self) -> Account:
        """Return once every message is answered."""
        (self._workspace / "effects").mkdir(parents=True)
        mind = worker(Path("effects"), tool="append_file")
        async with BotApi() as self._api, ModelServer(mind, api_key=KEY) as self._model:
            self._model.latency_s = _LATENCY_S
            self._model.keep = 20
            first, second = self._gateways()
            await first.start()
            while self._account.kills < self._kills:
                await self._stand_by(second)
                if self._account.kills % 2:
                    # Kore gives up a turn that was the only one running at three process ends and
                    # completed no step.
                    await first.idle()
                await self._ask((self._account.kills + 1) / self._kills)
                await asyncio.sleep(self._chance.uniform(0, _LATEST_S))
                await self._replace(first, second)
                first, second = second, first
            everything, ledger = {job.number for job in self._jobs}, Ledger(self._api)
            await first.until(lambda: ledger.done() >= everything)
            await first.idle()
            await first.stop()
            answers = {chat: self._api.answers(chat) for chat in range(1, _CHATS + 1)}
        settle(self._account, self._jobs, answers, self._workspace / "effects")
        return self._account

    def _gateways(self) -> tuple[GatewayProcess, GatewayProcess]:
        sections = {
            "store": {"url": postgres_server.create_database(), "lease_s": LEASE_S},
            "agent": {"workspace": str(self._workspace)},
            "access": {"owner": f"telegram:{OWNER}", "roles": {"telegram": "build"}},
            "telegram": {"rate_limits": "none"},
        }
        machines = [self._folder / name for name in ("first", "second")]
        for machine in machines:
            machine.mkdir()
        result, other = (
            GatewayProcess(
                *(machine, self._api, self._model, sections),
                words=["--standby"],
                runtime_dir=machine,
            )
            for machine in machines
        )
        return result, other

    async def _stand_by(self, gateway: GatewayProcess) -> None:
        count = gateway.log_text().count(STANDS_BY)
        await gateway.launch()
        await gateway.until(lambda: gateway.log_text().count(STANDS_BY) > count)

    async def _ask(self, share: float) -> None:
        """Send the jobs planned for this process."""
        for job in self._jobs[self._jobs_begun : round(len(self._jobs) * share)]:
            await self._api.user_says(job.chat, job.text)
            self._jobs_begun += 1

    async def _replace(self, first: GatewayProcess, second: GatewayProcess) -> None:
        """End the active gateway; return once the other is active and the first has ended."""
        start_count = second.log_text().count(AT_WORK)
        is_stopped = self._chance.random() < _STOP_SHARE
        first.signal(signal.SIGSTOP if is_stopped else signal.SIGKILL)
        self._account.kills += 1
        name = "stopped" if is_stopped else "killed"
        self._account.kills_at[name] = self._account.kills_at.get(name, 0) + 1
        await second.until(lambda: second.log_text().count(AT_WORK) > start_count)
        if is_stopped:
            await asyncio.sleep(self._chance.uniform(0, _LATEST_S))
            first.signal(signal.SIGCONT)
        code = await first.exit_code()
        assert not is_stopped or code == REPLACED, f"it ended with {code}:\n{first.log_text()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kore-crash-"))
    began = time.monotonic()
    loop = StandbyLoop(options.kills, options.messages, options.seed, folder)
    account = asyncio.run(loop.run())
    print(account.report())
    print(f"seed {options.seed}, {time.monotonic() - began:.0f} s, files in {folder}")
    return 0 if account.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
