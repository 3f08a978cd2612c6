"""Relays by another user of the machine, between a client and Kore."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from agent.security.key_proof import key_of, literal_address
from gateway.server.host_names import HostNames
from gateway.server.listener import ListenAddress, ServerOptions, serve
from gateway.server.remote_service import opened_service
from gateway.server.tokens import TokenFile
from kore.client import Client
from tests.fakes.gated import Gated
from tests.gateway.parts import running
from tests.gateway.server.browser import NEEDS_CHROMIUM, browser_page, log_in
from tests.gateway.server.proving import host_of, is_let_in, opened
from tests.gateway.server.proving import log_in as proven_login
from tests.gateway.server.served import Served, served


def _has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


NEEDS_IPV6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no ::1")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


class Relay:
    """Listener at `::1` and the port of a server, which passes every byte on to 127.0.0.1."""

    def __init__(self, address: str) -> None:
        self._port = URL(address).port
        self.connections = 0

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._pass_on, "::1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(_copy(reader, back), _copy(there, writer), return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


def test_server_recognizes_its_own_addresses() -> None:
    hosts = HostNames("127.0.0.1", ["kore.example.org", "10.0.0.7:9000", "fd00::1"])
    local = ("127.0.0.1", 8790)
    assert hosts.leads_here("127.0.0.1:8790", "http", local)
    assert hosts.leads_here("127.0.0.1", "http", ("127.0.0.1", 80))
    assert hosts.leads_here("[0:0::1]:8790", "http", ("::1", 8790))
    assert hosts.leads_here("kore.example.org", "https", local)
    assert hosts.leads_here("kore.example.org:444", "https", local)
    assert hosts.leads_here("10.0.0.7:9000", "http", local)
    assert hosts.leads_here("[fd00::1]:1", "https", local)
    for port in ("", ":80", ":443"):
        assert hosts.leads_here(f"kore.example.org{port}", "http", local)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1:8791", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("10.0.0.7:9001", "127.0.0.1"),
        ("", "127.0.0.1"),
        ("localhost:8790", "127.0.0.1"),
        ("[::1]:8790", "127.0.0.1"),
        ("127.0.0.1:8790", "::1"),
        ("127.0.0.1:8790", "10.0.0.7"),
        ("127.0.0.2:8790", "127.0.0.1"),
    ],
)
def test_addresses_that_others_may_use_are_recognized(host: str, address: str) -> None:
    assert not HostNames("127.0.0.1", ["10.0.0.7:9000"]).leads_here(host, "http", (address, 8790))


def test_tls_authenticates_the_name() -> None:
    hosts = HostNames("localhost")
    assert hosts.leads_here("localhost:8790", "https", ("127.0.0.1", 8790))
    assert not hosts.leads_here("localhost:8791", "https", ("127.0.0.1", 8790))


def test_entry_for_localhost_applies_to_its_address() -> None:
    hosts = HostNames("127.0.0.1", ["localhost:9000"])
    assert hosts.leads_here("127.0.0.1:9000", "http", ("127.0.0.1", 8790))
    assert not hosts.leads_here("localhost:9000", "http", ("127.0.0.1", 8790))


NAMES_OF_THIS_MACHINE = (
    *("127.0.0.1", "::1", "localhost", "localhost.", "127.1", "127.0.0.1.", "2130706433"),
    *("0x7f000001", "0177.0.0.1", "127.0.0.2", "0", "0.0.0.0", "::", "[::ffff:127.0.0.1]"),
    *("ip6-localhost", "foo.localhost", "localhost.localdomain", "127.0.0.1.nip.io", "my-host"),
)


@pytest.mark.parametrize("entry", NAMES_OF_THIS_MACHINE)
def test_entry_for_this_machine_needs_a_port(entry: str) -> None:
    """Other users may listen at another port, or at the other address of `localhost`."""
    hosts = HostNames("127.0.0.1", [entry])
    bracketed = f"[{entry}]" if "::" in entry and "[" not in entry else entry
    for name in ("127.0.0.1", "[::1]", "localhost", bracketed):
        assert not hosts.leads_here(f"{name}:9000", "http", ("127.0.0.1", 8790))


@NEEDS_IPV6
@pytest.mark.parametrize("name", ["localhost", "[::1]"])
async def test_relay_at_the_other_loopback_address_gets_no_proof(server: Served, name: str) -> None:
    port = URL(server.address).port
    async with Relay(server.address) as relay:
        key = key_of(server.secrets["admin"])
        async with opened(f"http://[::1]:{port}", "/v1/connect", key, f"{name}:{port}") as client:
            assert client.opening["error"]["code"] == "denied"
            assert "127.0.0.1" in client.opening["error"]["message"]
        assert relay.connections == 1


@NEEDS_IPV6
async def test_clients_of_localhost_reach_no_relay(server: Served) -> None:
    address = server.address.replace("127.0.0.1", "localhost")
    async with Relay(server.address) as relay:
        async with Client(address, server.secrets["read"], patience_s=0) as client:
            await client.call("list_sessions")
        async with opened_service(literal_address(address), server.secrets["read"]) as service:
            await service.list_sessions()
    assert relay.connections == 0


async def test_page_moves_from_localhost_to_the_address(server: Served) -> None:
    address = server.address.replace("127.0.0.1", "localhost")
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{address}/", allow_redirects=False) as response,
    ):
        assert response.status == 307
        assert response.headers["Location"] == f"{server.address}/"


@pytest.mark.skipif(NEEDS_CHROMIUM[0].args[0], reason="chromium is not installed")
@pytest.mark.usefixtures("chromium")
async def test_browser_at_localhost_logs_in_at_the_address(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await page.goto(server.address.replace("127.0.0.1", "localhost"))
        assert page.url.startswith(server.address)
        # Otherwise the link would change only the fragment of a page that is still loading.
        await page.goto("about:blank")
        await log_in(page, server)
        assert server.tokens.list()[-1].host == host_of(server.address)


async def test_browser_key_counts_only_at_the_address_of_its_page(tmp_path: Path) -> None:
    """A page of an impostor at Kore's former address can sign for any other address."""
    tokens = TokenFile(tmp_path / "tokens.json")
    secret = tokens.add("own", ("admin",))
    async with running(tmp_path, Gated()) as parts:
        async with serve(parts.service, tokens, ServerOptions(ListenAddress(port=0))) as former:
            key = await proven_login(former.web, secret)
            assert await is_let_in(former.web, key)
        async with serve(parts.service, tokens, ServerOptions(ListenAddress(port=0))) as present:
            assert not await is_let_in(present.web, key)


@NEEDS_IPV6
async def test_server_at_localhost_prints_an_address(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    options = ServerOptions(ListenAddress("localhost", 0))
    async with running(tmp_path, Gated()) as parts, serve(parts.service, tokens, options) as access:
        assert URL(access.web).host in ("127.0.0.1", "::1")
        assert await is_let_in(access.web, key_of(tokens.add("own", ("read",))))
