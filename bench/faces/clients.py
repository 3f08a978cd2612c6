"""Benchmark of many clients of a server: memory when idle, and latency of 50 active clients.

The baseline is the same connections to an aiohttp server of a few lines, in the same run.
"""

import asyncio
import json
import socket as sockets
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

from bench.figure import Figure, percentile
from bench.process import Running
from bench.stage import Stage, open_stage, until
from gateway.server.tokens import TokenFile
from kore.client import Client

IDLE, TALKING, ROUNDS = 500, 50, 4
_SETTLE_S = 1.0
# Echo server for WebSockets.
_BARE = """
import sys
from aiohttp import web

async def echo(request):
    socket = web.WebSocketResponse(compress=False)
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(message.data)
    return socket

app = web.Application()
app.router.add_get("/v1/connect", echo)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""


async def measure(command: Sequence[str]) -> list[Figure]:
    async with open_stage(command) as stage, serving(stage) as (running, address, token):
        alone_mb = running.anonymous_mb()
        async with _idle(address, token):
            idle_kb = (running.anonymous_mb() - alone_mb) * 1024 / IDLE
            firsts, wholes = await _talk(address, token)
            busy_mb = running.anonymous_mb()
        bare_kb = await _bare_kb(stage)
    return [
        Figure(
            f"an idle client (of {IDLE}), memory", "KB", idle_kb, bare=bare_kb,
            note="each follows a session; bare: aiohttp and an echo",
        ),
        Figure(
            f"{TALKING} clients at once, first event", "ms", statistics.median(firsts),
            percentile(firsts, 0.95), note=f"beside {IDLE} idle ones",
        ),
        Figure(
            f"{TALKING} clients at once, whole turn", "ms", statistics.median(wholes),
            percentile(wholes, 0.95), note=f"of {len(wholes)} turns",
        ),
        Figure("the server after it, memory", "MB", busy_mb, bare=alone_mb, note="bare: before"),
    ]  # fmt: skip


@asynccontextmanager
async def serving(stage: Stage) -> AsyncIterator[tuple[Running, str, str]]:
    file = stage.home / "server.json"
    words = [*stage.command, "serve", "--listen-addr", "auto"]
    with stage.process(words) as running:

        async def is_serving() -> bool:
            return file.exists()

        await until(is_serving)
        access = json.loads(file.read_text("utf-8"))
        token = TokenFile(stage.home / "tokens.json").add(f"bench-{time.time_ns()}", ("admin",))
        yield running, access["web"], token


@asynccontextmanager
async def _idle(address: str, token: str) -> AsyncIterator[None]:
    """Open connections that follow one session without activity."""
    async with AsyncExitStack() as stack:
        kore = await stack.enter_async_context(Client(address, token))
        session = await kore.call("create_session")
        connector = aiohttp.TCPConnector(limit=0)
        headers = {"Authorization": f"Bearer {token}"}
        http = await stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, headers=headers)
        )
        for n in range(IDLE):
            if n % 20 == 19:
                await asyncio.sleep(1.0)  # a token may make fifty calls per second
            socket = await stack.enter_async_context(http.ws_connect(f"{address}/v1/connect"))
            follow = {"id": 1, "call": "follow_session", "arguments": {"session": session}}
            await socket.send_json(follow)
            assert "ready" in await socket.receive_json()
        await asyncio.sleep(_SETTLE_S)
        yield


async def _talk(address: str, token: str) -> tuple[list[float], list[float]]:
    """Return milliseconds to the first event and to the end of each turn."""
    firsts: list[float] = []
    wholes: list[float] = []

    async def one() -> None:
        async with Client(address, token) as kore:
            session, seq = await kore.call("create_session"), 0
            for n in range(ROUNDS):
                events = kore.follow(session, seq)
                began = time.perf_counter()
                await kore.send(session, f"message {n}")
                is_first = True
                async for event in events:
                    if is_first and event["type"] != "message":
                        firsts.append((time.perf_counter() - began) * 1000)
                        is_first = False
                    if event["type"] == "message":
                        seq = event["seq"]
                    if event["type"] in ("turn_end", "idle"):
                        break
                wholes.append((time.perf_counter() - began) * 1000)

    await asyncio.gather(*(one() for _ in range(TALKING)))
    return firsts, wholes


async def _bare_kb(stage: Stage) -> float:
    port = _free_port()
    with stage.process([sys.executable, "-c", _BARE, str(port)]) as running:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as http, AsyncExitStack() as stack:
            address = f"http://127.0.0.1:{port}/v1/connect"

            async def is_there() -> bool:
                try:
                    await (await http.ws_connect(address)).close()
                except aiohttp.ClientError:
                    return False
                return True

            await until(is_there)
            before_mb = running.anonymous_mb()
            for _ in range(IDLE):
                socket = await stack.enter_async_context(http.ws_connect(address))
                await socket.send_str("x" * 100)
                await socket.receive_str()
            await asyncio.sleep(_SETTLE_S)
            return (running.anonymous_mb() - before_mb) * 1024 / IDLE


def _free_port() -> int:
    with sockets.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
