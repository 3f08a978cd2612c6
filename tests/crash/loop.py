"""Crash loop: kill a real gateway with SIGKILL until every message is answered.

The moments are random or named. The fake servers that the gateway talks to detect the named ones:

    polled      updates were delivered, nothing is stored yet
    confirmed   the offset moved: the batch is stored, its turns wait
    asked       a model call is in flight
    reasked     a tool has run, the model is asked for the rest
    effect      a tool's effect is visible, its result is perhaps not stored
    sending     an answer has arrived, and the gateway has no confirmation yet
    sent        the gateway has the confirmation that its answer arrived
    questioned  the owner is asked and has not answered
    pressed     a button was pressed, and perhaps the gateway does not know it
    running     a command begins: 5 to 60 ms after the model's reply, or with its first program
    steered     a message has joined a running turn, and the model is asked with it
    early       the process has only just begun to work

After a restart no command of a killed Kore is alive, nor is one after `/stop` or its time-out.

Actions that need approval (a change of an existing file) are allowed by an owner who takes a moment
to press, whether the gateway is alive or not. In every other chat messages steer the running turn;
in every fourth chat messages in quick succession form a single question.

The system's time jumps forward and back, while a process runs and between two processes. Now and
then Telegram refuses all calls for a while (429), or polls break and sends are refused for a while,
so that answers wait while others stream. In a burst, three kills follow each other at once while
two turns are in flight; neither turn may be given up because of them.

On PostgreSQL the server and the connections to it fail, too (`tests.crash.databases`), and the
gateway must recover without help.

Kore gives up a turn that was the only one running at three process ends and completed no step; this
is correct. So at least every second process may work for a while before it is killed.
"""

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.control.client import ControlClient
from tests import postgres_server
from tests.crash import clock
from tests.crash.databases import CrashDatabase, database_of
from tests.crash.jobs import OWNER, Account, Job, Ledger, plan, settle
from tests.crash.lasting_commands import LastingCommands
from tests.crash.pressing_owner import PressingOwner
from tests.fakes import faults
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_mind import JOB, person_text, worker
from tests.fork_server import ForkedProcess, ForkServer
from tests.gateway.stored import PRESENT

TIMEOUT_S = 60.0
_POLL_INTERVAL_S = 0.003
POINTS = (
    "random",
    "polled",
    "confirmed",
    "asked",
    "reasked",
    "effect",
    "sending",
    "sent",
    "steered",
    "running",
)
_OF_QUESTIONS = ("questioned", "pressed")
_EARLY_SHARE = 0.2
_JUMPS_S = (-86_400.0, -3_000.0, 0.0, 3_000.0, 86_400.0)
_JUMP_SHARE = 0.15
_TROUBLE_SHARE = 0.04
_BURST_SHARE = 0.06
_BURST_KILLS = 3
# Messages for a running turn are sent one after the other.
_APART_S = 0.04
_STOP_SHARE = 0.1
# Delay before a starting command is killed, counted from the model's reply.
_BEGINS_S = (0.005, 0.06)
_LATENCY_S = 0.02
# The same delay, counted from the command's first program.
_FIRST_S = 0.02


@dataclass(frozen=True, slots=True)
class Order:
    """Size of a run; the same seed requests the same jobs and aims at the same moments."""

    kills: int
    messages: int
    chats: int = 12
    seed: int = 1
    store: str = field(default_factory=postgres_server.engine)


class CrashLoop:
    """Loop over kills: `account = await CrashLoop(order, folder).run()`."""

    def __init__(self, order: Order, folder: Path) -> None:
        self._order, self._folder = order, folder
        self._home = folder / "home"
        self._effects = self._home / "workspace" / "effects"
        self._chance = random.Random(order.seed)
        self._jobs = plan(order.messages, order.chats, self._chance)
        self._account = Account(order.messages)
        self._jobs_begun = 0
        self._was_early = True
        self._log = folder / "gateway.log"
        self._clock = folder / "clock"
        clock.set_offset(self._clock, 0.0)
        # Two chats reserved for bursts of kills, so that these hit running turns.
        self._burst_chats = (order.chats + 1, order.chats + 2)
        self._burst_jobs: list[Job] = []
        self._commands = LastingCommands()
        self._stop_chat = order.chats + 3
        self._left: set[int] = set()

    async def run(self) -> Account:
        """Ask, kill and restart until all kills are done.

        Then wait until every answer has arrived, or until answers stop arriving.
        """
        with database_of(self._order.store, self._folder, self._chance) as database:
            return await self._run_on(database)

    async def _run_on(self, database: CrashDatabase) -> Account:
        self._database = database
        mind = worker(Path("effects"), tool="append_file", lasting=self._commands.text)
        async with BotApi() as self._api, ModelServer(mind) as self._model:
            self._model.latency_s = _LATENCY_S
            self._ledger = Ledger(self._api)
            self._owner = PressingOwner(self._api, self._order.seed)
            self._configure()
            self._forks = ForkServer(
                "tests.crash.clocked_fork_server", {clock.VARIABLE: str(self._clock)}
            )
            for chat in range(1, self._order.chats + 1, 2):
                await self._api.user_says(chat, "/queue steer")
            for chat in range(4, self._order.chats + 1, 4):
                await self._api.user_says(chat, "/queue join")
            try:
                async with asyncio.TaskGroup() as group:
                    owner = group.create_task(self._owner.run(), name="the owner presses")
                    await self._run_processes()
                    owner.cancel()
            finally:
                self._forks.close()
            chats = (*range(1, self._order.chats + 1), *self._burst_chats)
            answers = {chat: self._api.answers(chat) for chat in chats}
        self._account.questions = len(self._owner.pressed)
        self._account.steered = self._steered()
        self._account.database_faults = database.faults
        self._account.jobs += len(self._burst_jobs)
        await self._look_for(self._commands.alive())
        settle(self._account, [*self._jobs, *self._burst_jobs], answers, self._effects)
        return self._account

    async def _run_processes(self) -> None:
        while self._account.kills < self._order.kills:
            # Some messages arrive while Kore is down, the others when the moment is near.
            await self._ask(0.4)
            if self._chance.random() < _BURST_SHARE:
                await self._burst()
            await self._run_process(killed=True)
        self._api.heal()
        await self._ask(1.0)
        await self._run_process(killed=False)

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
                "queue": "queue",
            },
            "access": {"owner": f"telegram:{OWNER}", "roles": {"telegram": "build"}},
            "http": {"port": 0},
            "store": self._database.section,
        }
        self._home.mkdir(mode=0o700)
        self._effects.mkdir(parents=True)
        for job in self._jobs:
            if job.asks:
                (self._effects / str(job.number)).write_text("here\n")
        file = self._home / "config.json"
        file.write_text(json.dumps(config))
        file.chmod(0o600)

    def _next(self, share: float) -> list[Job]:
        """Return the unsent jobs up to this share of the jobs planned for the process."""
        quota = self._order.messages * (self._account.kills + share) / max(self._order.kills, 1)
        return self._jobs[self._jobs_begun : round(quota)]

    async def _ask(self, share: float, *, over_s: float = 0.0) -> None:
        """Send the jobs, with pauses of up to `over_s` between them."""
        for job in self._next(share):
            await self._api.user_says(job.chat, job.text)
            self._jobs_begun += 1
            if over_s:
                await asyncio.sleep(self._chance.uniform(0.0, over_s))

    async def _burst(self) -> None:
        """Kill several times in a row while two turns are in flight."""
        self._account.bursts += 1
        process = self._begin()
        client = await self._client(process)
        while await _is_busy(client):
            await asyncio.sleep(_POLL_INTERVAL_S)
        count = len(self._model.requests)
        for chat in self._burst_chats:
            number = self._order.messages + len(self._burst_jobs) + 1
            job = Job(number, chat, tool=False, slow=True)
            self._burst_jobs.append(job)
            await self._api.user_says(chat, job.text)
        await self._until(lambda: len(self._model.requests) >= count + 2, process)
        for _ in range(_BURST_KILLS - 1):
            await self._kill(process, "burst")
            count = len(self._model.requests)
            process = self._begin()
            await self._until(lambda: len(self._model.requests) > count, process)  # noqa: B023
            await asyncio.sleep(self._chance.uniform(0.0, 0.1))
        await self._kill(process, "burst")
        # Let the next process work for a while.
        self._was_early = True

    async def _stop(self) -> None:
        """Stop a command while it starts."""
        self._account.stops += 1
        number = 900_000 + self._account.stops
        count = len(self._model.requests)
        await self._api.user_says(self._stop_chat, Job(number, 0, False, False, runs=True).text)
        deadline = time.monotonic() + TIMEOUT_S
        while not any(_runs(request, number) for request in self._model.requests[count:]):
            if time.monotonic() > deadline:
                raise AssertionError(f"job {number} was not asked for: see {self._log}")
            await asyncio.sleep(_POLL_INTERVAL_S)
        await self._while_it_begins(deadline)
        await self._api.user_says(self._stop_chat, "/stop")
        await self._look_for({number})

    async def _while_it_begins(self, deadline: float) -> None:
        """Wait some time after the model's reply, or until the first program starts."""
        if self._chance.random() < 0.5:
            await asyncio.sleep(_LATENCY_S + self._chance.uniform(*_BEGINS_S))
            return
        while not self._commands.alive() and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_INTERVAL_S)
        await asyncio.sleep(self._chance.uniform(0.0, _FIRST_S))

    async def _look_for(self, jobs: set[int]) -> None:
        """Record which of these jobs still have a command after a moment."""
        self._account.outlived += await self._commands.outlived(jobs)

    def _disturb(self) -> None:
        """Randomly set the clock, or let Telegram refuse or break for a while."""
        if self._chance.random() < _JUMP_SHARE:
            clock.set_offset(self._clock, self._chance.choice(_JUMPS_S))
            self._account.jumps += 1
        if self._chance.random() < _TROUBLE_SHARE:
            self._account.troubles += 1
            if self._chance.random() < 0.5:
                flood = faults.status(429, retry_after=1)
                self._api.fail("sendMessage", flood, times=self._chance.randint(3, 5))
            else:
                self._api.fail("getUpdates", faults.reset, times=2)
                self._api.fail("sendMessage", faults.status(409), times=self._chance.randint(2, 3))

    def _steered(self) -> int:
        """Return the number of turns that took in a message while they ran."""
        rows = self._database.rows("message", "turn_id", role="user", turn_id=PRESENT)
        turns = Counter(rows)
        return sum(1 for messages in turns.values() if messages > 1)

    async def _run_process(self, *, killed: bool) -> None:
        """Run one process from its start to its end, by SIGKILL or by a clean stop."""
        self._disturb()
        polls = self._api.polls_done
        process = self._begin()
        try:
            await self._until(lambda: self._api.polling or self._api.polls_done > polls, process)
            # Commands of the previous process; each job has one.
            left, self._left = self._left, set()
            await self._look_for(left)
            if killed:
                if self._chance.random() < _STOP_SHARE:
                    await self._stop()
                async with self._database.failing():
                    point = await self._aim(process)
                    await self._kill(process, point)
                return
            everything = {job.number for job in [*self._jobs, *self._burst_jobs]}
            async with self._database.failing():
                await self._until(lambda: self._ledger.done() >= everything, process)
            process.send_signal(signal.SIGTERM)
            code = await asyncio.wait_for(process.wait(), TIMEOUT_S)
            if not killed and code != 0:
                raise AssertionError(f"a clean stop ended with {code}: see {self._log}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _begin(self) -> ForkedProcess:
        self._left |= self._commands.alive()
        with self._log.open("ab") as log, open(os.devnull, "rb") as nothing:
            return self._forks.start(
                ["gateway"],
                cwd=Path.cwd(),
                env={**os.environ, "KORE_HOME": str(self._home)},
                files=(nothing.fileno(), log.fileno(), log.fileno()),
            )

    async def _kill(self, process: ForkedProcess, point: str) -> None:
        if process.returncode is not None:
            raise AssertionError(f"the gateway ended by itself: see {self._log}")
        self._account.met += bool(self._commands.alive())
        process.send_signal(signal.SIGKILL)
        self._account.kills += 1
        self._account.kills_at[point] = self._account.kills_at.get(point, 0) + 1
        await asyncio.wait_for(process.wait(), TIMEOUT_S)

    async def _client(self, process: ForkedProcess) -> ControlClient:
        """Return a connection to the process, once it listens."""
        while (client := await ControlClient.connect(self._home / "kore.sock")) is None:
            if process.returncode is not None:
                raise AssertionError(f"the gateway ended by itself: see {self._log}")
            await asyncio.sleep(_POLL_INTERVAL_S)
        return client

    async def _aim(self, process: ForkedProcess) -> str:
        """Wait for the moment of the kill, and return its name."""
        point = "early"
        if self._was_early or self._chance.random() > _EARLY_SHARE:
            point = await self._aim_at_work(process)
        else:
            await asyncio.sleep(self._chance.uniform(0.0, 0.3))
        self._was_early = point == "early"
        return point

    async def _aim_at_work(self, process: ForkedProcess) -> str:
        """Let the process finish pending jobs, then send more and wait for the moment."""
        client = await ControlClient.connect(self._home / "kore.sock")
        deadline = time.monotonic() + TIMEOUT_S
        while client is not None and await _is_busy(client):
            if time.monotonic() > deadline:
                raise AssertionError(f"it is busy and comes to no end: see {self._log}")
            await asyncio.sleep(_POLL_INTERVAL_S)
        self._disturb()
        asks = any(job.asks for job in self._next(1.0))
        point = self._chance.choice([*POINTS, *(_OF_QUESTIONS * 3 if asks else ())])
        reached = self._watch(point)
        await self._ask(1.0, over_s=_APART_S if point == "steered" else 0.0)
        wait_s = self._chance.uniform(0.0, 0.4) if point == "random" else 1.0
        deadline = time.monotonic() + wait_s
        while not reached():
            if time.monotonic() > deadline or process.returncode is not None:
                return "random"
            await asyncio.sleep(_POLL_INTERVAL_S)
        if point == "running":
            await self._while_it_begins(deadline)
        return point

    def _watch(self, point: str) -> Callable[[], bool]:
        """Return a check for the moment, based on changes from now on."""
        api, model = self._api, self._model
        polls, sends, result = api.polls_done, len(api.sends), len(model.requests)
        pressed = len(self._owner.pressed)
        offset, calls, effects = api.confirmed_offset, len(api.calls), self._effect_bytes()
        watches: Mapping[str, Callable[[], bool]] = {
            "random": lambda: False,
            "polled": lambda: api.polls_done > polls and bool(api.pending_updates),
            "confirmed": lambda: api.confirmed_offset > offset,
            "asked": lambda: len(model.requests) > result,
            "reasked": lambda: any(
                request.body["messages"][-1]["role"] == "tool"
                for request in model.requests[result:]
            ),
            "steered": lambda: any(map(_is_steered, model.requests[result:])),
            "running": lambda: any(map(_runs, model.requests[result:])),
            "effect": lambda: self._effect_bytes() > effects,
            "sending": lambda: len(api.sends) > sends,
            "sent": lambda: len(api.sends) > sends and len(api.calls) > calls + 1,
            "questioned": lambda: bool(self._owner.unpressed()),
            "pressed": lambda: len(self._owner.pressed) > pressed,
        }
        return watches[point]

    def _effect_bytes(self) -> int:
        # Skip temporary files that are about to replace a file: they disappear between two checks.
        files = (file for file in self._effects.iterdir() if file.name.isdecimal())
        return sum(file.stat().st_size for file in files)

    async def _until(self, reached: Callable[[], bool], process: ForkedProcess) -> None:
        """Wait for the condition as long as answers keep arriving."""
        last, at = -1, time.monotonic()
        while not reached():
            if process.returncode is not None:
                raise AssertionError(f"the gateway ended by itself: see {self._log}")
            count = len(self._ledger.done())
            if count != last:
                last, at = count, time.monotonic()
            if time.monotonic() - at > TIMEOUT_S:
                return  # The account reports the missing answers.
            await asyncio.sleep(_POLL_INTERVAL_S)


def _is_steered(request: Any) -> bool:
    """Return whether a person's message follows the results of the last calls."""
    roles = [message["role"] for message in request.body["messages"][-2:]]
    return roles == ["tool", "user"]


def _runs(request: Any, number: int | None = None) -> bool:
    """Return whether the reply is a command: of any job, or of the given job."""
    last = request.body["messages"][-1]
    jobs = JOB.findall(person_text(last)) if last["role"] == "user" else []
    return any(kind == " run" and number in (None, int(n)) for n, kind, _ in jobs)


async def _is_busy(client: ControlClient) -> bool:
    status = await client.status()
    return bool(status["lanes_busy"] or status["messages_waiting"] or status["routes_with_mail"])
