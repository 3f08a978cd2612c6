"""Entries of the `network` of MCP servers, and the addresses that they cover."""

import pytest

from agent.security.local_services import LocalService
from agent.security.network.targets import NetworkReach, NetworkTarget, parse_entry


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("nas.local:5432", "nas.local:5432"),
        ("NAS.Local.:*", "nas.local:*"),
        ("bücher.example:22", "xn--bcher-kva.example:22"),
        ("192.168.1.5:22", "192.168.1.5:22"),
        ("192.168.1.5/32:22", "192.168.1.5:22"),
        ("10.0.0.0/8:5432", "10.0.0.0/8:5432"),
        ("[fd00::1]:443", "[fd00::1]:443"),
        ("[fd00::/8]:*", "[fd00::/8]:*"),
        ("[::ffff:10.0.0.5]:22", "10.0.0.5:22"),
        ("localhost:80", "127.0.0.1:80"),
        ("127.0.0.1:631", "127.0.0.1:631"),
        ("169.254.169.254:80", "169.254.169.254:80"),
    ],
)
def test_target_has_a_normal_form(text: str, normal: str) -> None:
    entry = parse_entry(text)
    assert isinstance(entry, NetworkTarget)
    assert str(entry) == normal
    assert parse_entry(normal) == entry


def test_hosts_and_local_services_are_told_apart() -> None:
    names = ["*", "Example.org", "::1", "localhost:8123", "unix:/run/x.sock", "nas:1"]
    reach = NetworkReach.parse(names)
    assert reach.hosts == ("*", "example.org", "::1")
    assert list(map(str, reach.services)) == ["127.0.0.1:8123", "unix:/run/x.sock"]
    assert all(isinstance(service, LocalService) for service in reach.services)
    assert list(map(str, reach.targets)) == ["nas:1"]


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1:*", "localhost:*", "[::1]:*", "127.0.0.0/8:80", "[::ffff:127.0.0.1]:*",
     "169.254.0.0/16:80", "0.0.0.0:80", "[::]:80", "224.0.0.1:80", "224.0.0.0/4:80", "*:80",
     "*.lan:80", "10.0.0.5/8:80", "10.0.0.0/8", "nas:0", "nas:65536", "nas:", ":80", "nas:80:80",
     "nas:80/x", "http://nas:80", "user@nas:80", "0x7f.1:80", "127.1:80", "2130706433:80",
     "fe80::1%eth0:80", "[fe80::1%eth0]:80", "unix:x", "unix:", "nas:٤٢", "nas:-1", "a b:80", ""],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_entry(text)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.170.2", "224.0.0.1",
     "255.255.255.255", "168.63.129.16", "100.100.100.200", "192.0.0.192", "::1", "::",
     "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
     "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "fe80::1", "fec0::1", "ff02::1",
     "fd00:ec2::254"],
)  # fmt: skip
def test_range_covers_no_special_address(address: str) -> None:
    everything = NetworkReach.parse(["0.0.0.0/0:*", "[::/0]:*"]).targets
    assert not any(target.covers(address, 80) for target in everything)


def test_single_special_address_is_covered() -> None:
    target = NetworkTarget.parse("169.254.169.254:80")
    assert target.covers("169.254.169.254", 80)
    assert target.covers("::ffff:169.254.169.254", 80)
    assert not target.covers("169.254.169.254", 81)
    assert not target.covers("169.254.170.2", 80)


def test_name_covers_only_itself() -> None:
    target = NetworkTarget.parse("nas.local:22")
    assert target.covers("nas.local", 22)
    assert not target.covers("a.nas.local", 22)
    assert not target.covers("10.0.0.5", 22)
    assert not NetworkTarget.parse("10.0.0.0/8:*").covers("nas.local", 22)
