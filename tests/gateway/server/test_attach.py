"""`kore attach` through lost connections and killed owners: every answer appears exactly once."""

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from gateway.server.tokens import TokenFile
from kore.client import CallFailed, Client
from tests.fakes.cutting_proxy import CuttingProxy
from tests.fakes.model import ModelServer
from tests.gateway.cli.tmux import Tmux
from tests.gateway.server.processes import KEY, Machine, free_port

BETWEEN_OWNERS = ("owner-lost", "handed-over")
pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    async with ModelServer(api_key=KEY) as model:
        yield Machine(tmp_path, model)


@pytest.fixture
def token(machine: Machine) -> str:
    return TokenFile(machine.home / "tokens.json").add("far", ("admin",))


@asynccontextmanager
async def attached(machine: Machine, port: int, token: str) -> AsyncIterator[Tmux]:
    """Run `kore attach` in a window until the block ends."""
    window = Tmux(machine.home)
    address = f"http://127.0.0.1:{port}"
    await window.start(80, "attach", address, environ={"KORE_TOKEN": token})
    try:
        await window.see(lambda text: "/exit quits" in text and "›" in text)
        yield window
    finally:
        await window("kill-server")


async def say(window: Tmux, text: str) -> None:
    await window("send-keys", text, "Enter")


async def until_delivered(client: Client, answer: str) -> None:
    """Wait until the owner of the data considers the answer delivered."""
    async with asyncio.timeout(60):
        while not await is_delivered(client, answer):
            await asyncio.sleep(0.02)


async def is_delivered(client: Client, answer: str) -> bool:
    try:
        texts = [
            part.get("text")
            for session in await client.call("list_sessions")
            for message in await client.call("load_messages", session=session["id"])
            for part in message["content"]
        ]
        status = await client.call("status")
    except CallFailed as exc:
        if exc.code in BETWEEN_OWNERS:
            return False
        raise
    return answer in texts and not status["routes_with_mail"] and not status["lanes_busy"]


async def answers_shown(window: Tmux, last: str) -> list[str]:
    """Return all answers of the screen and scrollback once `last` and the next prompt appear."""

    def is_over(text: str) -> bool:
        return text.rstrip().endswith("›") and last in text and "working" not in text

    lines = (await window.see(is_over)).splitlines()
    return [line for line in lines if line.startswith("echo: ")]


async def test_answer_sent_into_a_lost_connection_is_shown_once(
    machine: Machine, token: str
) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(CuttingProxy(port))
        file = machine.home / "config.json"
        server = {"server": {"hosts": [f"127.0.0.1:{proxy.port}"]}}
        file.write_text(json.dumps(json.loads(file.read_text()) | server))
        await stack.enter_async_context(machine.serving("--listen-addr", f"127.0.0.1:{port}"))
        observer = await stack.enter_async_context(Client(f"http://127.0.0.1:{port}", token))
        window = await stack.enter_async_context(attached(machine, proxy.port, token))
        await say(window, "one")
        await answers_shown(window, "echo: one")
        proxy.hold()
        await say(window, "two")
        await until_delivered(observer, "echo: two")
        proxy.cut()
        await window.see(lambda text: "Reconnected" in text and "echo: two" in text)
        await say(window, "three")
        expected = ["echo: one", "echo: two", "echo: three"]
        assert await answers_shown(window, "echo: three") == expected
        shown = await window("capture-pane", "-p", "-S", "-")
    assert "possible duplicate" not in shown


async def test_killed_owner_behind_a_server_loses_no_answer(machine: Machine, token: str) -> None:
    """The gateway owns the data; the server behind the console takes over."""
    port, rounds = free_port(), 3
    async with (
        machine.serving("--listen-addr", f"127.0.0.1:{port}"),
        Client(f"http://127.0.0.1:{port}", token) as observer,
        attached(machine, port, token) as window,
    ):
        for n in range(rounds):
            async with machine.run("gateway") as gateway:
                async with asyncio.timeout(90):
                    while await owner_pid(observer) != gateway.pid:
                        await asyncio.sleep(0.05)
                await say(window, f"round {n}")
                await until_delivered(observer, f"echo: round {n}")
                gateway.send_signal(signal.SIGKILL)
                await gateway.wait()
            await say(window, f"after {n}")
            shown = await answers_shown(window, f"echo: after {n}")
        expected = [f"echo: {word} {n}" for n in range(rounds) for word in ("round", "after")]
        assert shown == expected


async def owner_pid(client: Client) -> int | None:
    """Return the owner's process id; None between two owners."""
    try:
        return int((await client.call("status"))["pid"])
    except CallFailed as exc:
        if exc.code in BETWEEN_OWNERS:
            return None
        raise
