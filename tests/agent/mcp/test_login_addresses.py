from collections.abc import Sequence
from ipaddress import ip_address

import httpx2
import pytest

from agent.mcp.login_addresses import UnsafeAddress, connect_to, judge_address
from agent.security.network.urls import Address

PUBLIC, LAN, LOOPBACK = "93.184.216.34", "192.168.1.7", "127.0.0.1"
HOSTS = {
    "mcp.example.org": [PUBLIC],
    "login.example.org": ["93.184.216.35", "2606:2800::1"],
    "rebound.example.org": [LOOPBACK],
    "half.example.org": [PUBLIC, LOOPBACK],
    "intranet.example.org": ["10.1.2.3"],
    "nas.local": [LAN],
    "login.local": ["192.168.1.8"],
    "localhost": [LOOPBACK, "::1"],
}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def find_addresses(host: str) -> Sequence[Address]:
    return [ip_address(text) for text in HOSTS.get(host, [])]


@pytest.mark.parametrize(
    ("server", "address", "place"),
    [
        ("https://mcp.example.org/", "https://login.example.org/token", "93.184.216.35"),
        ("https://mcp.example.org/", "https://mcp.example.org/token", None),
        ("http://nas.local:8080/", "http://nas.local:9000/token", None),
        ("http://nas.local:8080/", "https://login.local/token", "192.168.1.8"),
        ("http://localhost:1/", "http://localhost:2/", None),
        ("http://localhost:1/", "https://login.example.org/", None),
    ],
)
async def test_login_may_use_another_host(server: str, address: str, place: str | None) -> None:
    judged = await judge_address(server, address, find_addresses)
    assert judged == (None if place is None else ip_address(place))


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("https://mcp.example.org/", "https://rebound.example.org/"),
        ("https://mcp.example.org/", "https://half.example.org/"),
        ("https://mcp.example.org/", "https://intranet.example.org/"),
        ("https://mcp.example.org/", "https://localhost/"),
        ("https://mcp.example.org/", "https://unknown.example.org/"),
        ("https://mcp.example.org/", "http://login.example.org/"),
        ("https://mcp.example.org/", "file:///etc/passwd"),
        ("https://unknown.example.org/", "https://nas.local/"),
        ("http://nas.local/", "https://localhost/"),
        ("http://nas.local/", "http://login.local/"),
    ],
)
async def test_server_cannot_redirect_to_a_nearer_address(server: str, address: str) -> None:
    with pytest.raises(UnsafeAddress):
        await judge_address(server, address, find_addresses)


@pytest.mark.parametrize(
    "address",
    [
        "https://127.0.0.2/",
        "https://127.1/",
        "https://0x7f.1/",
        "https://a.localhost/",
        "https://10.1.1.1",
    ],
)
async def test_proxy_is_not_used_for_this_machine(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org:3128")
    with pytest.raises(UnsafeAddress):
        await judge_address("https://mcp.example.org/", address, find_addresses)
    elsewhere = "https://a.example.org/"
    assert await judge_address("https://mcp.example.org/", elsewhere, find_addresses) is None


def test_connection_uses_the_checked_address() -> None:
    request = httpx2.Request("POST", "https://login.example.org:444/token?x=1")
    connect_to(request, ip_address("2606:2800::1"))
    assert str(request.url) == "https://[2606:2800::1]:444/token?x=1"
    assert request.headers["Host"] == "login.example.org:444"
    assert request.extensions["sni_hostname"] == "login.example.org"
