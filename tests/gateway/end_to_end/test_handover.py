"""Handover of the data between a terminal that owns it and a gateway that starts, and back."""

import asyncio
import random
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.control.handover import take_over
from gateway.runtime.lock import AlreadyRunning
from gateway.runtime.paths import DataDir
from tests.fakes.model_mind import worker
from tests.fakes.model_script import ReplyScript
from tests.gateway.cli.console.chat.prompt import PROMPT
from tests.gateway.cli.console.terminal import kore_agent
from tests.gateway.end_to_end.asking import run
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.gateway.stored import unlike

_ENVIRON = {"PYTHONPATH": str(Path(__file__).parents[3]), "PYTHONUTF8": "1"}
_EFFECTS = "effects/ran"
# Command that has its effect, then waits until the test releases it.
_LASTING = f"echo once >> {_EFFECTS}; while [ ! -e effects/go ]; do sleep 0.05; done"


def effects(gateway: GatewayProcess) -> list[str]:
    file = gateway.workspace / _EFFECTS
    return file.read_text().split() if file.exists() else []


async def test_open_terminal_hands_over_and_continues(alone: GatewayProcess) -> None:
    async with kore_agent(alone.home, environ=_ENVIRON) as terminal:
        await terminal.see("quits.")
        terminal.type("hello\r")
        await terminal.see("echo: hello")
        terminal.type("half a ")
        await terminal.see("half a")
        await alone.start()
        await terminal.see("takes over: this conversation now uses it.")
        terminal.type("sentence\r")
        await terminal.see("echo: half a sentence")
        assert await alone.answers_to(OWNER, "and I") == ["echo: and I"]
        await alone.kill()
        await terminal.see("reconnecting …")
        await terminal.see("· No gateway is running: this terminal works on its own; chats need")
        terminal.type("still there?\r")
        await terminal.see("echo: still there?")
        await alone.start()
        await terminal.see("takes over")
        assert (await alone.answers_to(OWNER, "me too"))[-1] == "echo: me too"
        terminal.type("/exit\r")
        assert await terminal.ended() == 0


@pytest.mark.programs("bwrap")
async def test_running_turn_continues_in_the_gateway(alone: GatewayProcess) -> None:
    (alone.workspace / "effects").mkdir(parents=True)
    alone.model.script(ReplyScript(tool_calls=(run(_LASTING),)), "Done.")
    async with kore_agent(alone.home, "-y", environ=_ENVIRON) as terminal:
        await terminal.see("quits.")
        terminal.type("do it\r")
        while not effects(alone):
            await asyncio.sleep(0.01)
        await alone.launch()
        await release_when_asked(alone)
        await terminal.see("Done.")
        assert effects(alone) == ["once"]
        assert len(alone.model.requests) == 2


@pytest.mark.programs("bwrap")
@pytest.mark.parametrize("words", [("-m", "do it"), ("--output-format", "json", "-m", "do it")])
async def test_one_shot_run_hands_over_and_gets_its_answer(
    alone: GatewayProcess, words: tuple[str, ...]
) -> None:
    (alone.workspace / "effects").mkdir(parents=True)
    # The second call is planned when the data is released, and runs in the gateway.
    second = run("echo twice >> effects/ran")
    alone.model.script(
        ReplyScript(tool_calls=(run(_LASTING),)), ReplyScript(tool_calls=(second,)), "Done."
    )
    task = asyncio.create_task(alone.kore("agent", "-y", *words))
    while not effects(alone):
        await asyncio.sleep(0.01)
    await alone.launch()
    await release_when_asked(alone)
    ran = await task
    assert ran.code == 0, ran.err
    assert "Done." in ran.out
    assert "takes over" in ran.err
    assert effects(alone) == ["once", "twice"]
    assert len(alone.model.requests) == 3
    await alone.idle()


async def test_both_terminals_continue(alone: GatewayProcess) -> None:
    async with (
        kore_agent(alone.home, environ=_ENVIRON) as first,
    ):
        await first.see("quits.")
        async with kore_agent(alone.home, environ=_ENVIRON) as second:
            # The prompt means that the terminal also watches the session.
            await second.see("quits.")
            await second.see(PROMPT)
            await alone.start()
            for terminal in (first, second):
                await terminal.see("takes over")
                terminal.type("here?\r")
                await terminal.see("echo: here?")
            await alone.stop()
            for terminal in (first, second):
                await terminal.see("reconnecting …")
                terminal.type("and now?\r")
                await terminal.see("echo: and now?")


async def test_stopped_terminal_keeps_the_data_and_is_named(
    alone: GatewayProcess,
) -> None:
    async with kore_agent(alone.home, environ=_ENVIRON) as terminal:
        await terminal.see("quits.")
        terminal.process.send_signal(signal.SIGSTOP)
        with (
            ExitStack() as stack,
            pytest.raises(AlreadyRunning, match=f"pid {terminal.process.pid}"),
        ):
            await take_over(stack, DataDir(alone.home), "kore gateway", limit_s=1.0)
        terminal.process.send_signal(signal.SIGCONT)
        await alone.start()
        await terminal.see("takes over")


@pytest.mark.programs("bwrap")
@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(0, 2), *(pytest.param(seed, 4, marks=pytest.mark.slow) for seed in range(4))],
)
async def test_kill_during_a_handover_loses_nothing(
    alone: GatewayProcess, seed: int, rounds: int
) -> None:
    """Both sides are killed in turn, at random moments of a handover."""
    chance = random.Random(seed)
    done = alone.workspace / "effects"
    alone.workspace.mkdir(parents=True)
    alone.model.mind = worker(done)
    for n in range(rounds):
        async with kore_agent(alone.home, "-c", "-y", environ=_ENVIRON) as terminal:
            await terminal.see("quits.")
            terminal.type(f"job {n} tool slow\r")
            await terminal.see(f"job {n} tool slow")
            await alone.api.user_says(OWNER, f"job {100 + n}")
            await alone.launch()
            await asyncio.sleep(chance.uniform(0.0, 2.0))
            if n % 2:
                terminal.process.kill()
                await terminal.ended()
            else:
                await alone.kill()
                await terminal.see(f"done {n}")
        if not alone.runs:
            await alone.start()
        await alone.until(lambda n=n: f"done {100 + n}" in alone.api.answers(OWNER))
        while (await alone.status())["messages_waiting"] or (await alone.status())["lanes_busy"]:
            await alone.api.news(0.01)
        await alone.kill()
    # A kill between sending and recording leaves a repeated message, marked as such.
    answers = [answer for answer in alone.api.answers(OWNER) if not answer.startswith("↻")]
    assert answers == [f"done {100 + n}" for n in range(rounds)]
    effects = done.read_text().split() if done.exists() else []
    assert len(effects) == len(set(effects))
    assert await alone.stored("turn", "id", state=unlike("done")) == []
    assert await alone.stored("inbox", "seq", turn_id=None) == []


async def release_when_asked(gateway: GatewayProcess) -> None:
    """Finish the running step as soon as the gateway has asked for the data."""
    while "requests the data" not in gateway.log_text():
        await asyncio.sleep(0.01)
    (gateway.workspace / "effects/go").touch()
