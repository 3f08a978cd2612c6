"""Client library against real processes that are killed during calls."""

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.server.tokens import TokenFile
from kore.client import CallFailed, Client, Disconnected
from tests.fakes.model import ModelServer
from tests.gateway.server.processes import KEY, Machine, free_port

KILLS, MESSAGES, CLIENTS = 4, 6, 3


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    async with ModelServer(api_key=KEY) as model:
        yield Machine(tmp_path, model)


def text_of(event: Mapping[str, Any]) -> str:
    return "".join(part.get("text", "") for part in event["message"]["content"])


async def messages_until(client: Client, session: str, count: int) -> list[tuple[int, str]]:
    """Return the messages in the order of their events, up to `count` messages."""
    results = []
    async for event in client.follow(session):
        if event["type"] == "message":
            results.append((event["seq"], text_of(event)))
            if len(results) == count:
                break
    return results


async def test_conversation_with_the_local_server(machine: Machine) -> None:
    async with machine.serving("--listen-addr", "auto"), Client.local(machine.home) as kore:
        session = await kore.send(None, "hi")
        results = await messages_until(kore, session, 2)
        assert [seq for seq, _ in results] == [1, 2]
        assert [item["id"] for item in await kore.call("list_sessions")] == [session]
        with pytest.raises(CallFailed) as refused:
            await kore.call("no_such_call")
        assert refused.value.code == "unknown-call"
    async with Client("http://127.0.0.1:1", patience_s=0.2) as nobody:
        with pytest.raises(Disconnected):
            await nobody.send(None, "hi")
    with pytest.raises(ValueError, match="needs https"):
        Client("http://kore.example.org:8790", "kore_x")


async def test_unix_socket_needs_no_token(machine: Machine) -> None:
    path = machine.home / "own.sock"
    async with machine.serving("--listen-addr", f"unix:{path}"), Client(f"unix:{path}") as kore:
        assert path.stat().st_mode & 0o777 == 0o600
        assert (await kore.call("status"))["model"]


async def test_wrong_token_is_reported_at_once(machine: Machine) -> None:
    async with machine.serving("--listen-addr", "auto"):
        address = json.loads((machine.home / "server.json").read_text())["web"]
        async with Client(address, "kore_wrong") as stranger:
            with pytest.raises(CallFailed) as refused:
                await stranger.call("status")
    assert refused.value.code == "denied"


async def test_kills_under_three_clients_lose_and_repeat_nothing(machine: Machine) -> None:
    port, chance = free_port(), random.Random(7)
    token = TokenFile(machine.home / "tokens.json").add("three", ("chat",))
    address = f"http://127.0.0.1:{port}"
    is_over = asyncio.Event()

    async def keep_serving() -> None:
        for _ in range(KILLS):
            async with machine.serving("--listen-addr", f"127.0.0.1:{port}") as process:
                await asyncio.sleep(chance.uniform(0.05, 0.6))  # kill at a random moment
                process.send_signal(signal.SIGKILL)
        async with machine.serving("--listen-addr", f"127.0.0.1:{port}"):
            await is_over.wait()

    async def talk(name: str) -> list[tuple[int, str]]:
        async with Client(address, token) as speaker, Client(address, token) as reader:
            session = await speaker.send(None, f"{name} 0")
            reading = asyncio.create_task(messages_until(reader, session, 2 * MESSAGES))
            for n in range(1, MESSAGES):
                await speaker.send(session, f"{name} {n}")
            return await reading

    serving = asyncio.create_task(keep_serving())
    try:
        async with asyncio.timeout(240):
            results = await asyncio.gather(*(talk(f"client{n}") for n in range(CLIENTS)))
    finally:
        is_over.set()
        await serving
    for n, messages in enumerate(results):
        assert [seq for seq, _ in messages] == list(range(1, 2 * MESSAGES + 1))
        texts = [text.partition("[")[0] for _, text in messages if text.startswith(f"client{n} ")]
        assert texts == [f"client{n} {k}" for k in range(MESSAGES)]


async def test_gateway_takes_over_from_a_server_and_returns(machine: Machine) -> None:
    async with machine.serving("--listen-addr", "auto"), Client.local(machine.home) as kore:
        own = (await kore.call("status"))["pid"]
        session = await kore.send(None, "one")
        await messages_until(kore, session, 2)
        async with machine.run("gateway") as gateway:
            async with asyncio.timeout(90):
                while await pid_of_owner(kore) != gateway.pid:
                    await asyncio.sleep(0.05)
            await kore.send(session, "two")
            assert len(await messages_until(kore, session, 4)) == 4
            gateway.send_signal(signal.SIGKILL)
            await gateway.wait()
            await kore.send(session, "three")
            assert len(await messages_until(kore, session, 6)) == 6
        assert await pid_of_owner(kore) == own


async def pid_of_owner(kore: Client) -> int | None:
    """Return the owner's process id; None between two owners."""
    try:
        return int((await kore.call("status"))["pid"])
    except CallFailed as exc:
        if exc.code in ("owner-lost", "handed-over"):
            return None
        raise


async def test_gateway_serves_if_configured(machine: Machine) -> None:
    file = machine.home / "config.json"
    config = json.loads(file.read_text("utf-8")) | {"server": {"listen": "auto"}}
    file.write_text(json.dumps(config))
    async with machine.run("gateway") as gateway:
        async with asyncio.timeout(60):
            while not (machine.home / "server.json").exists():
                await asyncio.sleep(0.05)
        async with Client.local(machine.home) as kore:
            assert (await kore.call("status"))["pid"] == gateway.pid
            session = await kore.send(None, "hi")
            assert len(await messages_until(kore, session, 2)) == 2
        gateway.send_signal(signal.SIGTERM)
        assert await gateway.wait() == 0
    assert not (machine.home / "server.json").exists()
    assert TokenFile(machine.home / "tokens.json").list() == ()
