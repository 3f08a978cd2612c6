"""Clients with few rights that try to exhaust the server for all other clients."""

import asyncio
import io
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.control.declaration import CallScope
from gateway.server.budgets import (
    BYTES,
    FRAMES,
    MAX_PARALLEL_CALLS,
    SECONDS,
    BudgetExceeded,
    CallLimiter,
    RateLimit,
    TokenBudgets,
)
from gateway.server.tokens import AccessToken
from tests.gateway.server.served import Served, served

MB = 1024 * 1024
# Maximum CPU time in seconds of this process, which is server and clients, for an owner's call
# during a flood.
MAX_CPU_S = 5.0
READER = AccessToken("reader", frozenset(["read"]), 1.0)
CHATTER = AccessToken("chatter", frozenset(["chat"]), 1.0)
ADMIN = AccessToken("boss", frozenset(["admin"]), 1.0)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


async def slowest_call(server: Served, flood: "asyncio.Future[Any]") -> float:
    """Return the maximum CPU time in seconds of an admin's call while the flood lasts."""
    longest = 0.0
    while True:
        began_at = time.process_time()
        assert (await server.call("status"))[0] == 200
        longest = max(longest, time.process_time() - began_at)
        if flood.done():
            await flood
            return longest
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "words",
    [
        " ".join(f"w{n}" for n in range(10_000)),
        "x " * 1_900_000,
        '"' + "word " * 10_000 + '"',
        '"' * 5_000,
        "a" * 1_001,
        " ".join("w" * 33),
    ],
    ids=["10,000 words", "1.9 million words", "a long phrase", "quotes", "a long word", "33 words"],
)
@pytest.mark.parametrize("scope", ["read", "chat", "admin"])
async def test_search_words_are_limited(server: Served, words: str, scope: CallScope) -> None:
    began_at = time.process_time()
    status, code = await server.call("search_messages", scope, words=words)
    assert (status, code) in ((400, "error"), (413, "too-large"))
    assert time.process_time() - began_at < MAX_CPU_S


async def test_search_with_a_whole_question_is_answered(server: Served) -> None:
    words = "what did we say about the roof of the house on the hill last summer"
    assert await server.call("search_messages", "read", words=words) == (200, [])


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_large_bodies_of_a_read_token_are_not_read(server: Served, is_chunked: bool) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"[" * 4 * MB

    async def send() -> int | None:
        # The server answers before it has read the body, and may close the connection.
        with suppress(aiohttp.ClientError, ConnectionError):
            async with server.session("read") as session:
                body = parts() if is_chunked else io.BytesIO(b"[" * 4 * MB)
                async with session.post("/v1/calls/status", data=body) as response:
                    return response.status
        return None

    flood = asyncio.gather(*(send() for _ in range(40)))
    assert await slowest_call(server, flood) < MAX_CPU_S
    assert set(await flood) <= {413, None}


async def test_bytes_of_a_chat_token_are_counted_over_its_requests(server: Served) -> None:
    async def send() -> int:
        body = io.BytesIO(b'{"x": "' + b"y" * (4 * MB - 10) + b'"}')
        async with server.session("chat") as session:
            response = await session.post("/v1/calls/status", data=body)
            return response.status

    statuses = [await send() for _ in range(20)]
    assert statuses[:7] == [400] * 7
    assert statuses.count(429) >= 5


async def test_invalid_frames_are_counted(server: Served) -> None:
    """Frames above the rate limit are not read."""
    frames = ['{"call": "status"}', '{"id": 1, "ack": 1}', '{"id": 9, "cancel": true}', "[]", "x"]
    async with server.session("read") as session, AsyncExitStack() as stack:
        sockets = [
            await stack.enter_async_context(session.ws_connect("/v1/connect")) for _ in range(4)
        ]

        async def send(socket: aiohttp.ClientWebSocketResponse) -> None:
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(2):
                    for n in range(20_000):
                        await socket.send_str(frames[n % len(frames)])

        answers = 0

        async def count(socket: aiohttp.ClientWebSocketResponse) -> None:
            nonlocal answers
            async for _ in socket:
                answers += 1

        counting = [asyncio.ensure_future(count(socket)) for socket in sockets]
        flood = asyncio.gather(*map(send, sockets))
        longest = await slowest_call(server, flood)
        for task in counting:
            task.cancel()
        await asyncio.wait(counting)
    assert longest < MAX_CPU_S
    assert answers <= FRAMES.burst + 10 * FRAMES.per_s


async def test_idle_connections_do_not_block_an_admin(tmp_path: Path) -> None:
    async with served(tmp_path, max_connections=24) as server, AsyncExitStack() as stack:
        sockets = []
        for scope in ("read", "chat", "approve"):
            session = await stack.enter_async_context(server.session(scope))
            for _ in range(20):
                sockets.append(await session.ws_connect("/v1/connect"))
                stack.push_async_callback(sockets[-1].close)
        for _ in range(10):
            assert (await server.call("status"))[0] == 200
        # Connections of other clients never displace an admin's connection.
        admin = await stack.enter_async_context(server.session())
        own = await admin.ws_connect("/v1/connect")
        reader = await stack.enter_async_context(server.session("read"))
        for _ in range(40):
            with suppress(aiohttp.ClientError):
                await reader.ws_connect("/v1/connect")
        await own.send_json({"id": 1, "call": "status"})
        assert "value" in await own.receive_json()


async def test_connections_per_token_are_limited(tmp_path: Path) -> None:
    """Another token with few rights is served as well."""
    async with served(tmp_path, max_connections=24) as server, AsyncExitStack() as stack:
        chatter = await stack.enter_async_context(server.session("chat"))
        own = await chatter.ws_connect("/v1/connect")
        reader = await stack.enter_async_context(server.session("read"))
        sockets = [await reader.ws_connect("/v1/connect") for _ in range(40)]
        await own.send_json({"id": 1, "call": "status"})
        assert "value" in await own.receive_json()
        ends = [asyncio.ensure_future(socket.receive()) for socket in sockets]
        closed, open_ = await asyncio.wait(ends, timeout=2)
        assert len(open_) == 24 // 4
        assert ends[-1] in open_
        for task in open_:
            task.cancel()
        await asyncio.wait(open_)
        for socket in sockets:
            await socket.close()
        assert len(closed) == 40 - 24 // 4


def test_debt_decreases_with_time() -> None:
    now = 0.0
    limiter = CallLimiter(RateLimit(10, 2), lambda: now)
    limiter.charge("a", 16)
    assert limiter.debt_s("a") == 3.0
    assert not limiter.take("a")
    assert limiter.take("b", 10)
    now = 3.5
    assert limiter.debt_s("a") == 0.0
    assert limiter.take("a")


async def test_call_duration_is_counted() -> None:
    budgets = TokenBudgets()
    budgets._seconds.charge(READER.identity, SECONDS.burst + 1)
    with pytest.raises(BudgetExceeded):
        async with budgets.working(READER):
            pass
    for other in (CHATTER, ADMIN):
        async with budgets.working(other):
            pass


async def test_concurrent_calls_of_a_token_are_limited() -> None:
    budgets, running, most = TokenBudgets(), 0, 0

    async def work() -> None:
        nonlocal running, most
        async with budgets.working(READER):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(work() for _ in range(30)))
    assert most == MAX_PARALLEL_CALLS


def test_admin_is_not_limited() -> None:
    budgets = TokenBudgets()
    for _ in range(100):
        budgets.check_body(ADMIN, 4 * MB)
    for _ in range(50):
        budgets.check_body(CHATTER, int(BYTES.burst / 50))
    with pytest.raises(BudgetExceeded):
        budgets.check_body(CHATTER, int(BYTES.burst / 50))
