"""Setup of a benchmark: fake servers as processes, and a real gateway."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.bare import TOKEN
from bench.process import ROOT, Running, environ

ACCOUNT = TOKEN.partition(":")[0]
OWNER = 7
_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """Fake server with its control routes (tests/fakes)."""

    url: str
    session: aiohttp.ClientSession

    async def get(self, path: str, **query: Any) -> Any:
        async with self.session.get(f"{self.url}/control/{path}", params=query) as response:
            return await response.json()

    async def post(self, path: str, data: Any) -> Any:
        async with self.session.post(f"{self.url}/control/{path}", json=data) as response:
            response.raise_for_status()
            return await response.json()


@dataclass(frozen=True, slots=True)
class Stage:
    """Fake servers and Kore's folder.

    `bot` and `model` are the fake servers, `servers` their processes, `home` is Kore's folder with
    its configuration.
    """

    bot: Server
    model: Server
    servers: Sequence[Running]
    home: Path
    command: Sequence[str]

    def configure(self, sections: Mapping[str, Any]) -> None:
        """Merge sections into the configuration, before a gateway runs."""
        config = self.home / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **sections}))

    @asynccontextmanager
    async def gateway(self, *words: str) -> AsyncIterator[Running]:
        """Run `kore gateway`; the block begins at its first poll."""
        with self.process([*self.command, "gateway", "-q", *words]) as running:
            await self._until_polling(running)
            yield running

    @asynccontextmanager
    async def bare_gateway(self) -> AsyncIterator[Running]:
        """Run the baseline gateway, a script of a few lines (bench/bare.py)."""
        script = [sys.executable, "-m", "bench.bare", "gateway", self.bot.url, self.model.url]
        with self.process(script) as running:
            await self._until_polling(running)
            yield running

    def process(self, command: Sequence[str]) -> Running:
        return Running(command, environ(self.home), self.home.parent)

    async def say(self, chat: int, text: str) -> float:
        """Deliver a message to the Bot API; return the time, as Unix time in seconds."""
        result = await self.bot.post("user_says", {"chat_id": chat, "text": text})
        return float(result["at"])

    async def answers(self, since: int, count: int = 1) -> tuple[list[dict[str, Any]], int]:
        """Return the bot's messages since effect number `since`, and the number of effects now."""
        entries: list[dict[str, Any]] = []
        deadline = time.monotonic() + _WAIT_S
        while len(entries) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(entries)} of {count} answers within {_WAIT_S:g} s")
            effects = await self.bot.get("sent", since=since, wait_s=1)
            entries += [effect for effect in effects if effect["method"] == "sendMessage"]
            since += len(effects)
        return entries, since

    async def turn_ms(self, chat: int, text: str, since: int) -> tuple[float, int]:
        """Send a message; return milliseconds until the answer, and the next `since`."""
        at = await self.say(chat, text)
        answers, since = await self.answers(since)
        return (answers[0]["time"] - at) * 1000, since

    async def turns_of_each(self, chats: int, warm_ups: int, turns: int) -> list[list[float]]:
        """Return milliseconds per turn and chat; the chats, which begin at OWNER, alternate."""
        since = await self.effects()
        results: list[list[float]] = [[] for _ in range(chats)]
        for round_ in range(warm_ups + turns):
            for n in range(chats):
                elapsed_ms, since = await self.turn_ms(OWNER + n, f"message {round_}", since)
                if round_ >= warm_ups:
                    results[n].append(elapsed_ms)
        return results

    async def effects(self) -> int:
        return int((await self.bot.get("state"))["sent"])

    async def _until_polling(self, running: Running) -> None:
        calls = (await self.bot.get("state"))["calls"]

        async def is_polling() -> bool:
            if running.process.poll() is not None:
                raise RuntimeError("the gateway ended at once; its words stand above")
            state = await self.bot.get("state")
            return bool(state["polling"] and state["calls"] > calls)

        await until(is_polling)


async def until(is_true: Callable[[], Any], within_s: float = _WAIT_S) -> None:
    """Poll every 20 ms until the condition is true."""
    async with asyncio.timeout(within_s):
        while not await is_true():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def open_stage(
    command: Sequence[str], *, latency_ms: int = 0, limits: bool = False, keep: int | None = None
) -> AsyncIterator[Stage]:
    """Start both fake servers with a fresh home; the model echoes after `latency_ms`.

    With `limits`, the Bot API enforces Telegram's limits and Kore obeys them. The model remembers
    `keep` requests.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kore-bench-")))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        result = () if keep is None else ("--keep", str(keep))
        model, thinking = _start(stack, "model", "--latency-ms", str(latency_ms), *result)
        bot, chatting = _start(stack, "telegram", *(["--limits"] if limits else []))
        home = folder / "home"
        _configure(home, bot, model, limits)
        servers = [thinking, chatting]
        yield Stage(Server(bot, session), Server(model, session), servers, home, command)


def _start(stack: AsyncExitStack, module: str, *words: str) -> tuple[str, Running]:
    """Start a fake server as a separate process; return its address, too."""
    command = [sys.executable, "-m", f"tests.fakes.{module}", *words]
    running = stack.enter_context(Running(command, environ(), ROOT, stdout=subprocess.PIPE))
    assert running.process.stdout is not None
    port = json.loads(running.process.stdout.readline())["port"]
    return f"http://127.0.0.1:{port}", running


def _configure(home: Path, bot: str, model: str, limits: bool) -> None:
    home.mkdir()
    model_entry = {"model_name": "default", "model": "openai/stand-in", "api_key": "none"}
    settings = {
        "model_list": [{**model_entry, "api_base": f"{model}/v1"}],
        "telegram": {
            "enabled": True,
            "token": TOKEN,
            "allow_from": ["*"],
            "base_url": bot,
            "rate_limits": "telegram" if limits else "none",
            "queue": "queue",
        },
        "access": {"owner": f"telegram:{OWNER}"},
        "http": {"port": 0},
    }
    config = home / "config.json"
    config.write_text(json.dumps(settings))
    config.chmod(0o600)
