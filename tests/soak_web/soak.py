"""Soak test of the page: two tabs on a real server that is killed repeatedly.

One tab performs all actions. The other, which is never reloaded, opens each session afterwards; its
heap and nodes are measured.
"""

import asyncio
import json
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.server.tokens import TokenFile
from kore.client import Client
from tests.fakes.model import ModelServer
from tests.gateway.server.browser import IDLE, browser_context, session_of
from tests.gateway.server.processes import KEY, Machine, free_port
from tests.soak_web.mind import answer
from tests.soak_web.person import Person, log_in, open_tab, stored_messages

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

_KEPT_REQUESTS = 50
# The list of sessions grows to a hundred rows, which is not a leak.
_LISTED = """
() => {
  const nodes = document.createTreeWalker(document.querySelector('.sidebar'))
  let count = 1
  while (nodes.nextNode()) count++
  return count
}
"""
MOST_NODES, MOST_HEAP_MB, MOST_GROWTH = 6_000, 40.0, 1.3
MOST_TASKS, MOST_SOCKETS = 40, 25


@dataclass(frozen=True, slots=True)
class Sample:
    """Measurements after a round, of the tab that is never reloaded and of the server.

    The tab shows an empty session. `nodes` counts the DOM without the list of sessions, including
    detached nodes.
    """

    at_s: float
    heap_mb: float
    nodes: int
    listeners: int
    tasks: int
    sockets: int
    resident_mb: float


@dataclass
class Report:
    """Completed actions and faults."""

    seconds: float = 0.0
    done: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    sessions: int = 0
    samples: list[Sample] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Add a fault for each measurement that grew."""
        for name, most in (
            *(("nodes", MOST_NODES), ("heap_mb", MOST_HEAP_MB)),
            *(("tasks", MOST_TASKS), ("sockets", MOST_SOCKETS)),
        ):
            values = [float(getattr(sample, name)) for sample in self.samples]
            if max(values) > most:
                self.faults.append(f"{name}: {max(values):.1f}, at most {most}")
            quarter = len(values) // 4
            if quarter < 5:
                continue
            early, late = _median(values[quarter : 2 * quarter]), _median(values[-quarter:])
            if late > MOST_GROWTH * early:
                self.faults.append(f"{name} grew from {early:.1f} to {late:.1f}")

    def in_words(self) -> str:
        first, last = self.samples[0], self.samples[-1]
        deeds = ", ".join(f"{name} {count}" for name, count in sorted(self.done.items()))
        lines = [
            f"{self.seconds:.0f} s, {self.sessions} sessions, {self.messages} messages: {deeds}",
            f"first: {first}",
            f"last: {last}",
            f"{len(self.faults)} faults",
        ]
        return "\n".join([*lines, *self.faults])


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


class Soak:
    """Soak run: `rounds` of all actions, or the rounds that fit into `seconds`."""

    def __init__(self, folder: Path, model: ModelServer, seed: int) -> None:
        self._machine = Machine(folder, model, "tests.soak_web.counted_server")
        config = self._machine.home / "config.json"
        content = {**json.loads(config.read_text()), "server": {"terminal": "full"}}
        config.write_text(json.dumps(content))
        self._port = free_port()
        self._chance = random.Random(seed)
        self._report = Report()
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, seconds: float, rounds: int | None = None) -> Report:
        token = TokenFile(self._machine.home / "tokens.json").add("soak", ("admin",))
        address = f"http://127.0.0.1:{self._port}"
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            await self._start(stack)
            kore = await stack.enter_async_context(Client(address, token))
            context = await stack.enter_async_context(browser_context())
            first = await open_tab(context, address, self._report.faults)
            await log_in(first, token)
            second = await open_tab(context, address, self._report.faults)
            person, witness = (Person(page, kore, self._chance) for page in (first, second))
            meter = await context.new_cdp_session(second)
            await meter.send("Performance.enable")
            n = 0
            while time.monotonic() - began < seconds and (rounds is None or n < rounds):
                n += 1
                await self._round(stack, person, witness)
                await witness.page.click(".sidebar .new")
                await witness.page.wait_for_selector(".welcome")
                self._report.samples.append(
                    await self._sample(meter, witness, time.monotonic() - began)
                )
            await self._check(person, witness, kore)
        self._report.faults += person.faults + witness.faults
        self._report.seconds = time.monotonic() - began
        self._report.judge()
        return self._report

    async def _round(self, stack: AsyncExitStack, person: Person, witness: Person) -> None:
        """Create a session, which most actions need, and run all actions in random order."""
        actions = {**person.actions(), "kill": lambda: self._kill(stack, person)}
        begin = actions.pop("new")
        names = list(actions)
        self._chance.shuffle(names)
        await begin()
        for name in names:
            await actions[name]()
            self._report.done[name] += 1
            session = session_of(person.page)
            if session is not None:
                await witness.open(session)
                await witness.compare()
        self._report.done["new"] += 1

    async def _kill(self, stack: AsyncExitStack, person: Person) -> None:
        """Kill the server with SIGKILL during a turn; the next server finishes the turn."""
        assert self._process is not None
        end = await person.send("long")
        await person.page.wait_for_timeout(self._chance.randrange(1_500))
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        await person.page.wait_for_selector(".offline")
        await self._start(stack)
        await person.page.wait_for_selector(f"article.kore:not(.draft) >> text={end}")
        await person.page.wait_for_selector(IDLE)
        await person.compare()

    async def _start(self, stack: AsyncExitStack) -> None:
        words = ("--listen-addr", f"127.0.0.1:{self._port}")
        self._process = await stack.enter_async_context(self._machine.serving(*words))

    async def _sample(self, meter: "CDPSession", witness: Person, at_s: float) -> Sample:
        assert self._process is not None
        await meter.send("HeapProfiler.collectGarbage")
        result = await meter.send("Performance.getMetrics")
        page = {metric["name"]: metric["value"] for metric in result["metrics"]}
        return Sample(
            at_s,
            page["JSHeapUsedSize"] / 2**20,
            int(page["Nodes"]) - await witness.page.evaluate(_LISTED),
            int(page["JSEventListeners"]),
            await self._count_tasks(),
            _count_sockets(self._process.pid),
            _resident_mb(self._process.pid),
        )

    async def _count_tasks(self) -> int:
        assert self._process is not None
        file = self._machine.home / "tasks"
        file.unlink(missing_ok=True)
        self._process.send_signal(signal.SIGUSR2)
        async with asyncio.timeout(20):
            while not file.exists():
                await asyncio.sleep(0.01)
        return int(file.read_text())

    async def _check(self, person: Person, witness: Person, kore: Client) -> None:
        """Compare every session on the page with the store.

        Every text must be stored once, except for copies in forks.
        """
        sessions = [item["id"] for item in await kore.call("list_sessions", limit=100_000)]
        result: Counter[str] = Counter()
        copied: set[str] = set()
        for session in sessions:
            await witness.open(session)
            await witness.compare()
            texts = [text for role, text in await stored_messages(kore, session) if role == "user"]
            if len(set(texts)) != len(texts):
                self._report.faults.append(f"session {session} has a text twice: {texts}")
            if session in person.forks:
                copied.update(texts)
            else:
                result.update(texts)
        self._report.sessions, self._report.messages = len(sessions), len(person.texts)
        for text in person.texts:
            if result[text] != 1 and (result[text] or text not in copied):
                self._report.faults.append(f"{text!r} is stored {result[text]} times")


def _count_sockets(pid: int) -> int:
    entries = Path(f"/proc/{pid}/fd").iterdir()
    return sum(entry.readlink().name.startswith("socket:") for entry in entries)


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@asynccontextmanager
async def open_soak(folder: Path, seed: int = 1) -> AsyncIterator[Soak]:
    async with ModelServer(answer, api_key=KEY) as model:
        model.keep = _KEPT_REQUESTS
        yield Soak(folder, model, seed)
