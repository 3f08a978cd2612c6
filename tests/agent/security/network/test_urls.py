from ipaddress import ip_address

import pytest

from agent.errors import ToolError
from agent.security.network.urls import is_public, resolve_public


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111",
                "2a00:1450:4001::200e", "64:ff9b::808:808"]
)  # fmt: skip
def test_global_unicast_is_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1",
        "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192",
        "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
        "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16",
        "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1",
        "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254",
        "fe80::1", "fec0::1", "ff02::1",
    ],
)  # fmt: skip
def test_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "0x7f.1", "[::1]",
     "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "LOCALHOST.", "169.254.169.254",
     "[64:ff9b::7f00:1]", "[fe80::1]", "１２７.0.0.1"],
)  # fmt: skip
async def test_every_spelling_of_a_local_address_is_rejected(host: str) -> None:
    with pytest.raises(ToolError):
        await resolve_public(f"http://{host}:8080/x")


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://8.8.8.8/", "gopher://8.8.8.8", "//8.8.8.8/", "8.8.8.8", "",
     "http://", "http://user@8.8.8.8/", "http://user:pw@8.8.8.8/", "http://:pw@8.8.8.8/",
     "http://8.8.8.8:99999/", "http://[::1", "javascript:alert(1)", "http://\ud800/",
     "http://a..b/", "http://8.8.8.8:0/", "http://\x1b/", "http://a\x7fb/", "http://a b/", "http://]"],
)  # fmt: skip
async def test_invalid_urls_are_rejected(url: str) -> None:
    with pytest.raises(ToolError):
        await resolve_public(url)


async def test_public_literal_is_pinned_without_a_name_server() -> None:
    target = await resolve_public("https://8.8.8.8/dns?q=1#top")
    assert target.addresses == ("8.8.8.8",)
    assert str(target.url) == "https://8.8.8.8/dns?q=1#top"


async def test_exception_for_loopback_allows_only_loopback() -> None:
    target = await resolve_public("http://127.0.0.1:1/", lambda address: address.is_loopback)
    assert target.addresses == ("127.0.0.1",)
    with pytest.raises(ToolError, match="not a public address"):
        await resolve_public("http://8.8.8.8/", lambda address: address.is_loopback)
