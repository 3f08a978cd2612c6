import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.errors import ConfigError
from gateway.control.health import STATUS_TIMEOUT_S, gateway_pages, serve_health
from gateway.core.tasks import run_to_completion
from gateway.turns.usage.turn_log import TurnLog


def _well() -> dict[str, Any]:
    return {
        "uptime_s": 5,
        "lanes_busy": 1,
        "messages_waiting": 2,
        "updates_undecoded": None,
        "routes_with_mail": 3,
        "obstacle": None,
        "workers": None,
        "failing_model": None,
        "channels": {"telegram:bot": {"state": "polling"}},
    }


@dataclass
class Running:
    """Operations that report a fixed state of health."""

    facts: dict[str, Any] = field(default_factory=_well)
    turns: TurnLog = field(default_factory=TurnLog)

    async def status(self) -> Mapping[str, Any]:
        return self.facts

    async def replay(self, seq: int) -> str:
        raise NotImplementedError

    async def backup(self, target: Path) -> int:
        raise NotImplementedError


@asynccontextmanager
async def health_server(
    running: Running, status_timeout_s: float = STATUS_TIMEOUT_S
) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    counts = {"parts_sent": 4.0}
    async with (
        gateway_pages(running, lambda: counts, running.turns.facts, status_timeout_s) as pages,
        serve_health("127.0.0.1", port, pages),
        aiohttp.ClientSession() as session,
    ):
        yield session, f"http://127.0.0.1:{port}"


async def test_health_is_ok_while_every_channel_receives() -> None:
    async with (
        health_server(Running()) as (session, url),
        session.get(f"{url}/healthz") as response,
    ):
        assert response.status == 200
        assert await response.json() == {"status": "ok", "broken": []}


@pytest.mark.parametrize(
    ("trouble", "named"),
    [
        ({"channels": {"telegram:bot": {"state": "conflict"}}}, "telegram:bot"),
        ({"obstacle": "the disk is full"}, "intake"),
    ],
)
async def test_broken_receivers_are_named(trouble: dict[str, Any], named: str) -> None:
    running = Running({**_well(), **trouble})
    async with health_server(running) as (session, url), session.get(f"{url}/healthz") as response:
        assert response.status == 503
        assert await response.json() == {"status": "degraded", "broken": [named]}


async def test_undecoded_updates_are_counted() -> None:
    running = Running({**_well(), "updates_undecoded": 3})
    async with health_server(running) as (session, url):
        async with session.get(f"{url}/healthz") as response:
            assert response.status == 200
            assert await response.json() == {"status": "ok", "broken": [], "updates_undecoded": 3}
        async with session.get(f"{url}/metrics") as response:
            assert "kore_updates_undecoded 3" in await response.text()


async def test_metrics_use_the_prometheus_text_format() -> None:
    async with (
        health_server(Running()) as (session, url),
        session.get(f"{url}/metrics") as response,
    ):
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = (await response.text()).splitlines()
    assert "# TYPE kore_parts_sent_total counter" in lines
    assert "kore_parts_sent_total 4.0" in lines
    assert "kore_messages_waiting 2" in lines
    assert "kore_updates_undecoded 0" in lines
    assert 'kore_channel_up{channel="telegram:bot"} 1' in lines


async def test_request_with_a_foreign_host_is_rejected() -> None:
    async with health_server(Running()) as (session, url):
        for path in ("/healthz", "/metrics"):
            for host in ("evil.example:80", "[127.0.0.1]evil.example", "[localhost"):
                async with session.get(url + path, headers={"Host": host}) as response:
                    assert response.status == 403
                    assert "kore_" not in await response.text()


async def test_server_listens_only_on_loopback() -> None:
    with pytest.raises(ConfigError, match=r"http\.host"):
        async with (
            gateway_pages(Running(), dict, TurnLog().facts) as pages,
            serve_health("0.0.0.0", 0, pages),
        ):
            pass


async def test_occupied_port_is_reported_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ConfigError, match=f"{port} cannot be used"):
            async with (
                gateway_pages(Running(), dict, TurnLog().facts) as pages,
                serve_health("127.0.0.1", port, pages),
            ):
                pass


@dataclass
class Away(Running):
    """Operations whose database is unavailable: `status` cannot be cancelled until it is back."""

    is_back: asyncio.Event = field(default_factory=asyncio.Event)
    asked_count: int = 0

    async def status(self) -> Mapping[str, Any]:
        self.asked_count += 1
        await run_to_completion(asyncio.ensure_future(self.is_back.wait()))
        return self.facts


async def test_unavailable_database_does_not_delay_pages() -> None:
    running = Away()
    try:
        async with health_server(running, 0.01) as (session, url):
            # More requests than the allowed number of simultaneous connections.
            for _ in range(40):
                async with session.get(f"{url}/healthz") as response:
                    assert response.status == 503
                    assert (await response.json())["broken"] == ["database"]
            async with session.get(f"{url}/livez") as response:
                assert response.status == 200
            async with session.get(f"{url}/metrics") as response:
                assert "kore_parts_sent_total 4.0" in await response.text()
            assert running.asked_count == 1
            running.is_back.set()
            async with asyncio.timeout(30):
                status = 503
                while status == 503:
                    async with session.get(f"{url}/healthz") as response:
                        status = response.status
            assert status == 200
    finally:
        running.is_back.set()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.0 405"),
        (b"GET /other HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", b"HTTP/1.0 404"),
        (b"GET /healthz HTTP/1.0\r\n\r\n", b"HTTP/1.0 200"),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nhost: evil\r\n\r\n", b"HTTP/1.0 403"),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost.evil\r\n\r\n", b"HTTP/1.0 403"),
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\n\r\n", b""),
        (b"\xff\r\n\r\n", b"HTTP/1.0 405"),
    ],
)
async def test_odd_requests_get_at_most_one_answer(request_: bytes, answer: bytes) -> None:
    async with health_server(Running()) as (_, url):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(request_)
        try:
            assert (await reader.read(12)).startswith(answer)
        except ConnectionResetError:
            assert answer == b""
        writer.close()


@pytest.mark.parametrize(
    ("target", "status"),
    [("/healthz?deep", 503), ("/healthz?deep=1", 503), ("/healthz?x=deep", 200),
     ("/metrics?deep", 200)],
)  # fmt: skip
async def test_deep_is_read_as_a_parameter_of_the_health_page(target: str, status: int) -> None:
    running = Running({**_well(), "failing_model": "m"})
    async with health_server(running) as (session, url), session.get(url + target) as response:
        assert response.status == status
