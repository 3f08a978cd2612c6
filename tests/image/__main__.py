"""Test of the real container image: build, run, talk, kill, restart, stop. `make image-test`.

Prints one line per step and exits with 0, or with 1 and a sentence that describes the failure.
"""

import asyncio
import json
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.fakes.bot_api import BotApi
from tests.image.engine import UID, Engine, ImageTestFailed
from tests.image.machine import build_settings, engine

CONTEXT = Path(__file__).parents[2]
PERSON = 4711
SESSION_ID = re.compile(r"\b\d{8}_\d{6}\w*")
DATABASE, STRAY = "/home/kore/.kore/kore.db", "/home/kore/.kore/stray.txt"
READY_S = 60.0
ANSWER_S = 30.0
STOP_S = 30.0


def step(text: str) -> None:
    print(f"image-test: {text}", flush=True)


def expect(true: bool, text: str, shown: object = "") -> None:
    if not true:
        raise ImageTestFailed(f"{text}\n{shown}".rstrip())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def eventually(condition: Callable[[], bool], within_s: float, text: str) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        expect(time.monotonic() < deadline, f"{text} within {within_s:g} s")
        await asyncio.sleep(0.05)


class Scenario:
    """One run of the image, observed through a fake Bot API."""

    def __init__(self, used: Engine, api: BotApi) -> None:
        self._engine = used
        self._api = api
        self._health: list[str] = []
        self._env = {
            "KORE_AGENT_MODEL": "offline/echo",
            "KORE_HTTP_PORT": str(free_port()),
            "KORE_TELEGRAM_ENABLED": "true",
            "KORE_TELEGRAM_TOKEN": api.token,
            "KORE_TELEGRAM_BASE_URL": api.url,
            "KORE_TELEGRAM_ALLOW_FROM": f"[{PERSON}]",
        }

    async def inspect(self, config: Mapping[str, Any]) -> None:
        self._health = [str(word) for word in config["Healthcheck"]["Test"][1:]]
        expect(config["StopSignal"] == "SIGTERM", "The stop signal is not SIGTERM", config)
        expect(bool(config["Volumes"]), "The image declares no volume", config)
        user = await self._engine.once("id", "-u")
        expect(str(UID) in user.output.split(), f"It does not run as user {UID}", user.output)
        probe = "import os, ssl; assert not os.access('/opt/kore', os.W_OK);"
        probe += " assert ssl.create_default_context().get_ca_certs()"
        for command in (["kore", "--version"], ["python3", "-c", probe]):
            ended = await self._engine.once(*command)
            expect(ended.code == 0, f"{command[0]} fails in the image", ended.output)
        health = await self._engine.once(*self._health)
        expect(health.code != 0, "The health check passes although no gateway runs")

    async def start(self) -> None:
        await self._engine.start(self._env)
        deadline = time.monotonic() + READY_S
        while (await self._engine.inside(*self._health)).code:
            expect(time.monotonic() < deadline, f"Not healthy within {READY_S:g} s")
            await asyncio.sleep(0.2)

    async def is_answered(self, text: str) -> None:
        await self._api.user_says(PERSON, text)
        await self.has_answer_to(text)

    async def has_answer_to(self, text: str) -> None:
        await eventually(
            lambda: len(self._answers(text)) > 0, ANSWER_S, f"No answer to {text!r} came"
        )

    async def sessions(self) -> set[str]:
        listed = await self._engine.inside("kore", "sessions", "list", "--json")
        expect(listed.code == 0, "kore sessions list fails in the container", listed.output)
        ids = set(SESSION_ID.findall(listed.output))
        expect(bool(ids), "kore sessions list names no session", listed.output)
        return ids

    async def confines_commands(self) -> None:
        """Check that a command reaches only the workspace, with no flag set."""
        status = await self._engine.inside("kore", "status", "--json")
        expect('"landlock' in status.output, "Landlock is not what holds commands", status.output)
        command = f"echo made > here.txt; cat here.txt {DATABASE}; echo x > {STRAY}; echo end"
        call = f"!tool exec {json.dumps({'command': command})}"
        ended = await self._engine.inside("kore", "agent", "-y", "-m", call)
        expect("made" in ended.output and "end" in ended.output, "exec does not run", ended.output)
        expect(ended.output.count("ermission denied") > 1, "exec got outside", ended.output)
        expect("SQLite" not in ended.output, "exec read the database", ended.output)

    async def kill_with_a_message_waiting(self, text: str) -> None:
        await self._engine.send(signal.SIGKILL)
        await self._api.user_says(PERSON, text)

    async def stop(self) -> None:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(STOP_S):
                code = await self._engine.send(signal.SIGTERM)
        except TimeoutError as exc:
            raise ImageTestFailed(f"It did not stop within {STOP_S:g} s of SIGTERM") from exc
        expect(code == 0, f"SIGTERM ended it with {code}")
        step(f"stopped in {time.monotonic() - begun:.1f} s")

    def answered_once(self, *texts: str) -> None:
        for text in texts:
            answers = self._answers(text)
            expect(len(answers) == 1, f"{text!r} was answered {len(answers)} times", answers)

    def _answers(self, text: str) -> list[str]:
        return [answer for answer in self._api.answers(PERSON) if text in answer]


async def play(used: Engine, base: str, work: Path) -> None:
    step(f"building on {base}")
    config = await used.build(await build_settings(CONTEXT, base, work))
    async with BotApi() as api:
        scenario = Scenario(used, api)
        step("checking user, health check, volume, stop signal")
        await scenario.inspect(config)
        step("starting")
        await scenario.start()
        await scenario.is_answered("first-words")
        before = await scenario.sessions()
        step("running a command in its sandbox")
        await scenario.confines_commands()
        step("kill -9")
        await scenario.kill_with_a_message_waiting("sent-while-down")
        step("restarting on the same volume")
        await scenario.start()
        await scenario.has_answer_to("sent-while-down")
        expect(before <= await scenario.sessions(), "A session is gone")
        step("SIGTERM")
        await scenario.is_answered("last-words")
        await scenario.stop()
        scenario.answered_once("first-words", "sent-while-down", "last-words")


async def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kore-image-") as folder:
        work = Path(folder)
        async with engine(work) as (used, base):
            try:
                await play(used, base, work)
            except ImageTestFailed:
                print(await used.logs(), file=sys.stderr)
                raise
    step("passed")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except ImageTestFailed as failure:
        print(f"image-test: FAILED: {failure}", file=sys.stderr)
        sys.exit(1)
