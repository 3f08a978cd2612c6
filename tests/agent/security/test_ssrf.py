"""The corpus of addresses with the real web_fetch and a real listener on loopback.

The machine's resolver parses numeric addresses; names get the answers of an attacker's name server.
Only connections to public addresses may be attempted, and these fail, because the test has no
Internet access.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

import pytest
from yarl import URL

from agent.errors import ToolError
from agent.security.network.urls import Address, Allow, is_public
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.web.fetch import WebFetch
from tests.agent.security.ssrf_cases import NAMES, URLS

T = TypeVar("T")
PUBLIC = "93.184.215.14"
FIRST_HOP = "127.0.0.3"
NUMERIC = frozenset("0123456789abcdefABCDEFxX.:%")


class Net(asyncio.SelectorEventLoop):
    """An event loop with a name table that records look-ups and attempted connections."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups: Counter[str] = Counter()
        self.tried: list[str] = []
        self.names = {name: [answer] for name, answer in NAMES.items()}

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        self.lookups[name] += 1
        key = name.lower().rstrip(".")
        if answers := self.names.get(key):
            texts = answers.pop(0) if len(answers) > 1 else answers[0]
            return [(0, 1, 6, "", (address, port)) for address in texts]
        if set(name) <= NUMERIC or key == "localhost":
            return await super().getaddrinfo(host, port, **options)
        return [(0, 1, 6, "", (PUBLIC, port))]

    async def sock_connect(self, sock: Any, address: Any) -> None:
        self.tried.append(address[0])
        if is_public(ip_address(address[0])):
            raise ConnectionRefusedError("there is no Internet here")
        await super().sock_connect(sock, address)

    def inside(self) -> list[str]:
        return [address for address in self.tried if not is_public(ip_address(address))]


class Listener:
    """A server that answers every connection with one page and counts them."""

    def __init__(self, head: bytes = b"200 OK\r\nContent-Type: text/plain") -> None:
        self.head = head
        self.count = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %b\r\nConnection: close\r\n\r\nreached" % self.head)
        await writer.drain()
        writer.close()

    @asynccontextmanager
    async def on(self, *hosts: str) -> AsyncIterator[int]:
        """Listen on one port of all the hosts."""
        port = 0
        servers = []
        for host in hosts:
            servers.append(await asyncio.start_server(self, host, port))
            port = servers[0].sockets[0].getsockname()[1]
        try:
            yield port
        finally:
            for server in servers:
                server.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=Net) as runner:
        return runner.run(work)


def net() -> Net:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Net)
    return loop


async def answer(call: CallContext, url: str, allow: Allow = is_public) -> str:
    try:
        return (await WebFetch(ToolSettings(), allow).run({"url": url}, call)).for_model
    except ToolError as exc:
        return f"refused: {exc}"


@pytest.fixture
def call(tmp_path: Path) -> CallContext:
    from agent.types import ToolCall

    return CallContext(
        ToolCall("c", "t", {}, "{}"),
        ToolEnvironment("s", tmp_path, tmp_path / "m"),
        lambda *_: None,
    )


def test_corpus_has_its_minimum_size() -> None:
    assert len(set(URLS)) >= 120


def test_private_address_is_not_reached_by_any_spelling(call: CallContext) -> None:
    async def ask_all() -> None:
        listener = Listener()
        async with listener.on("127.0.0.1", "::1") as port:
            for case in URLS:
                url = case.replace("{p}", str(port))
                assert (await answer(call, url)).startswith("refused"), case
                assert (net().inside(), listener.count) == ([], 0), case
            # Without these the corpus would pass with a tool that fetches nothing.
            for host in ("127.0.0.1", "[::1]", "localhost"):
                url = f"http://{host}:{port}/"
                assert "reached" in await answer(call, url, lambda address: address.is_loopback)
            assert listener.count == 3

    run(ask_all())


@pytest.mark.skipif(sys.platform != "linux", reason="needs all of 127.0.0.0/8")
def test_private_address_is_not_reached_by_a_redirect(call: CallContext) -> None:
    def allow(address: Address) -> bool:
        return str(address) == FIRST_HOP or is_public(address)

    async def follow_all() -> None:
        listener, first = Listener(), Listener()
        async with listener.on("127.0.0.1", "::1") as port, first.on(FIRST_HOP) as start:
            cases = [case for case in URLS if not set(case) & set("\r\n\0\ud800") and "//" in case]
            assert len(cases) > 120
            for case in cases:
                where = case.replace("{p}", str(port)).encode("utf-8")
                first.head = b"302 Found\r\nLocation: " + where
                net().tried.clear()
                text = await answer(call, f"http://{FIRST_HOP}:{start}/", allow)
                assert text.startswith("refused"), case
                assert set(net().inside()) == {FIRST_HOP}, case
            assert (listener.count, first.count >= len(cases)) == (0, True)
            first.head = f"302 Found\r\nLocation: http://127.0.0.1:{port}/".encode()
            url = f"http://{FIRST_HOP}:{start}/"
            assert "reached" in await answer(call, url, lambda address: address.is_loopback)

    run(follow_all())


def test_name_is_resolved_once(call: CallContext) -> None:
    async def rebind() -> None:
        listener = Listener()
        async with listener.on("127.0.0.1") as port:
            net().names["rebind.example"] = [(PUBLIC,), ("127.0.0.1",)]
            text = await answer(call, f"http://rebind.example:{port}/")
            assert "could not be fetched" in text
            assert net().lookups["rebind.example"] == 1
            assert (net().tried, listener.count) == ([PUBLIC], 0)
            again = await answer(call, f"http://rebind.example:{port}/")
            assert "not a public address" in again
            assert listener.count == 0

    run(rebind())


async def test_policy_checks_the_requested_host(call: CallContext) -> None:
    """Two different parsers of an address would allow bypassing a list of hosts."""
    seen = 0
    for case in URLS:
        url = case.replace("{p}", "8080")
        try:
            plan = await WebFetch(ToolSettings()).plan({"url": url}, call)
        except ToolError:
            continue
        seen += 1
        assert plan.hosts == (URL(url.strip()).raw_host,), case
    assert seen > 50
