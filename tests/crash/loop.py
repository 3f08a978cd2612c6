"""Kills a real gateway with SIGKILL, at random moments and at named ones, until all is answered.

The named moments are seen from outside, by the stand-in servers that the gateway speaks to:

    polled      updates were handed out, nothing is stored yet
    confirmed   the offset moved: the batch is stored, its turns wait
    asked       a model call is in flight
    reasked     a tool has run, the model is asked for the rest
    effect      a tool's effect is there, its result is perhaps not stored
    sending     an answer has arrived, and the gateway has not heard of it
    sent        the gateway has heard that its answer arrived
    early       the process has only just begun to work

A turn that is cut off three times without a step is given up, as it should be: so every second
life at least is left to work before it is killed.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.client import Client
from tests.crash.jobs import Account, Ledger, plan, settle
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_mind import worker

PATIENCE_S = 60.0
_LOOK_S = 0.003
POINTS = ("random", "polled", "confirmed", "asked", "reasked", "effect", "sending", "sent")
_EARLY_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Order:
    """How much to do. The same seed asks the same jobs and aims at the same moments."""

    kills: int
    messages: int
    chats: int = 12
    seed: int = 1


class CrashLoop:
    """`account = await CrashLoop(order, folder).run()`"""

    def __init__(self, order: Order, folder: Path) -> None:
        self._order = order
        self._home = folder / "home"
        self._effects = self._home / "workspace" / "effects"
        self._chance = random.Random(order.seed)
        self._jobs = plan(order.messages, order.chats, self._chance)
        self._account = Account(order.messages)
        self._asked = 0
        self._was_early = True
        self._log = folder / "gateway.log"

    async def run(self) -> Account:
        """Ask, kill and restart until all kills are spent; then wait until no answer is missing,
        or none comes any more."""
        mind = worker(Path("effects"), tool="append_file")
        async with BotApi() as self._api, ModelServer(mind) as self._model:
            self._model.latency_s = 0.02
            self._ledger = Ledger(self._api)
            self._configure()
            self._spare = await self._prepare()
            try:
                while self._account.kills < self._order.kills:
                    # Some write while nobody is there, the others when the moment is near.
                    await self._ask(0.4)
                    await self._life(killed=True)
                await self._ask(1.0)
                await self._life(killed=False)
            finally:
                assert self._spare.stdin is not None, "it is a pipe"
                self._spare.stdin.close()
                await self._spare.wait()
            answers = {chat: self._api.answers(chat) for chat in range(1, self._order.chats + 1)}
        settle(self._account, self._jobs, answers, self._effects)
        return self._account

    def _configure(self) -> None:
        config = {
            "agent": {"model": "stand-in", "workspace": str(self._home / "workspace")},
            "model_list": [
                {
                    "model_name": "stand-in",
                    "model": "openai/fake",
                    "api_base": self._model.base_url,
                    "api_key": "key",
                }
            ],
            "telegram": {
                "enabled": True,
                "token": TOKEN,
                "base_url": self._api.base_url,
                "allow_from": ["*"],
                "rate_limits": "none",
            },
            "http": {"port": 0},
        }
        self._home.mkdir(mode=0o700)
        file = self._home / "config.json"
        file.write_text(json.dumps(config))
        file.chmod(0o600)

    async def _ask(self, share: float) -> None:
        """Send the messages that belong to this life, up to a share of them."""
        quota = self._order.messages * (self._account.kills + share) / max(self._order.kills, 1)
        for job in self._jobs[self._asked : round(quota)]:
            await self._api.user_says(job.chat, job.text)
            self._asked += 1

    async def _life(self, *, killed: bool) -> None:
        """One process: from its start to its end, by SIGKILL or by a clean stop."""
        process = self._spare
        self._spare = await self._prepare()
        assert process.stdin is not None, "it is a pipe"
        process.stdin.write(b"begin\n")
        try:
            polls = self._api.polls_done
            await self._until(lambda: self._api.polling or self._api.polls_done > polls, process)
            if killed:
                await self._aim(process)
                process.send_signal(signal.SIGKILL)
                self._account.kills += 1
            else:
                everything = {job.number for job in self._jobs}
                await self._until(lambda: self._ledger.done() >= everything, process)
                process.send_signal(signal.SIGTERM)
            code = await asyncio.wait_for(process.wait(), PATIENCE_S)
            if not killed and code != 0:
                raise AssertionError(f"a clean stop ended with {code}: see {self._log}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _prepare(self) -> asyncio.subprocess.Process:
        """A gateway that begins when it is told to."""
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.crash.spare",
                env={**os.environ, "KORE_HOME": str(self._home)},
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    async def _aim(self, process: asyncio.subprocess.Process) -> None:
        """Wait for the moment to kill at: a named one, or any."""
        point = "early"
        if self._was_early or self._chance.random() > _EARLY_SHARE:
            point = await self._aim_at_work(process)
        else:
            await asyncio.sleep(self._chance.uniform(0.0, 0.3))
        self._was_early = point == "early"
        self._account.kills_at[point] = self._account.kills_at.get(point, 0) + 1
        if process.returncode is not None:
            raise AssertionError(f"the gateway ended by itself: see {self._log}")

    async def _aim_at_work(self, process: asyncio.subprocess.Process) -> str:
        """Let it finish what waits, then send more and wait for the moment."""
        client = await Client.connect(self._home / "kore.sock")
        while client is not None and await _is_busy(client):
            await asyncio.sleep(_LOOK_S)
        point = self._chance.choice(POINTS)
        reached = self._watch(point)
        await self._ask(1.0)
        wait_s = self._chance.uniform(0.0, 0.4) if point == "random" else 1.0
        deadline = time.monotonic() + wait_s
        while not reached():
            if time.monotonic() > deadline or process.returncode is not None:
                return "random"
            await asyncio.sleep(_LOOK_S)
        return point

    def _watch(self, point: str) -> Callable[[], bool]:
        """Whether the moment has come, judged by what has changed from now on."""
        api, model = self._api, self._model
        polls, sends, asked = api.polls_done, len(api.sends), len(model.requests)
        offset, calls, effects = api.confirmed_offset, len(api.calls), self._count_effects()
        watches: Mapping[str, Callable[[], bool]] = {
            "random": lambda: False,
            "polled": lambda: api.polls_done > polls and bool(api.pending_updates),
            "confirmed": lambda: api.confirmed_offset > offset,
            "asked": lambda: len(model.requests) > asked,
            "reasked": lambda: any(
                request.body["messages"][-1]["role"] == "tool" for request in model.requests[asked:]
            ),
            "effect": lambda: self._count_effects() > effects,
            "sending": lambda: len(api.sends) > sends,
            "sent": lambda: len(api.sends) > sends and len(api.calls) > calls + 1,
        }
        return watches[point]

    def _count_effects(self) -> int:
        return len(list(self._effects.iterdir())) if self._effects.exists() else 0

    async def _until(
        self, reached: Callable[[], bool], process: asyncio.subprocess.Process
    ) -> None:
        """Wait for it as long as answers keep coming."""
        last, at = -1, time.monotonic()
        while not reached():
            if process.returncode is not None:
                raise AssertionError(f"the gateway ended by itself: see {self._log}")
            answered = len(self._ledger.done())
            if answered != last:
                last, at = answered, time.monotonic()
            if time.monotonic() - at > PATIENCE_S:
                return  # The account will tell what is missing.
            await asyncio.sleep(_LOOK_S)


async def _is_busy(client: Client) -> bool:
    status = await client.status()
    return bool(status["lanes_busy"] or status["messages_waiting"] or status["routes_with_mail"])
