"""Kore's egress proxy over real sockets: allowed and rejected requests."""

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.errors import KoreError
from agent.security.network.egress_proxy import EgressProxy
from agent.security.network.proxy_connection import EgressGrant, ProxyLimits
from agent.security.network.urls import host_name, is_public, shared_hosts
from tests.fakes.web import WebSite

HOSTS = ("localhost", "127.0.0.1")


@dataclass
class Way:
    """A site, the proxy in front of it and the recorded requests."""

    site: WebSite
    proxy: EgressProxy
    at: int
    token: bytes
    record: list[tuple[str, bool, str]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.site.url.rpartition(":")[2])

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.at)
        writer.write(self.token)
        return reader, writer

    async def ask(self, head: str) -> str:
        """Return the whole answer to these bytes; `{port}` is the port of the site."""
        reader, writer = await self.dial()
        writer.write(head.replace("{port}", str(self.port)).encode("latin-1"))
        try:
            async with asyncio.timeout(20):
                return (await reader.read()).decode()
        except ConnectionError:
            return ""
        finally:
            writer.close()


@asynccontextmanager
async def way(**grant: Any) -> AsyncIterator[Way]:
    async with WebSite() as site:
        port = int(site.url.rpartition(":")[2])
        results: list[tuple[str, bool, str]] = []

        async def record(where: str, allowed: bool, reason: str) -> None:
            results.append((where, allowed, reason))

        result = {"hosts": HOSTS, "ports": (port,), "allow": lambda address: True, **grant}
        async with EgressProxy.open(EgressGrant(**result), record) as proxy:
            yield Way(site, proxy, *proxy.listener(), results)


GET = "GET http://localhost:{port}/a HTTP/1.1\r\nHost: x\r\n"


async def test_listed_host_is_reached_and_recorded() -> None:
    async with way() as stream:
        stream.site.page("/a", "hello")
        headers = "Host: evil.example\r\nAccept: */*\r\nProxy-Authorization: Basic eA==\r\n"
        answer = await stream.ask(
            f"GET http://localhost:{{port}}/a?q=1#part HTTP/1.1\r\n{headers}"
            "Connection: x-mine, accept\r\nX-Mine: 1\r\n\r\n"
        )
        assert answer.startswith("HTTP/1.1 200 OK\r\n")
        assert answer.endswith("hello")
        (visit,) = stream.site.visits
        assert visit.path == "/a?q=1"
        sent = {name.lower(): value for name, value in visit.headers.items()}
        assert sent == {"host": f"localhost:{stream.port}", "connection": "close"}
        (entry,) = stream.record
        assert entry[:2] == (f"localhost:{stream.port}", True)
        assert stream.proxy.session.reached_hosts == {f"localhost:{stream.port}"}


async def test_body_is_forwarded_up_to_its_announced_length() -> None:
    async with way() as stream:
        answer = await stream.ask(
            "POST http://localhost:{port}/a HTTP/1.1\r\nContent-Length: 4\r\n"
            "Connection: content-length\r\n\r\nbody"
            "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        assert "404" in answer
        assert [visit.path for visit in stream.site.visits] == ["/a"]
        sent = {name.lower(): value for name, value in stream.site.visits[0].headers.items()}
        assert sent["content-length"] == "4"


async def test_tunnel_carries_bytes_until_both_sides_end() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()  # until the client closes its side
        writer.write(b"heard " + data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, way(ports=(port,)) as stream:
        reader, writer = await stream.dial()
        writer.write(f"CONNECT localhost:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        writer.write(b"x" * 300_000)
        writer.write_eof()
        assert await reader.read() == b"heard " + b"x" * 300_000
        writer.close()


REFUSED = {
    "another host": "CONNECT example.org:443 HTTP/1.1\r\n\r\n",
    "another host in plain": "GET http://example.org/ HTTP/1.1\r\n\r\n",
    "below a listed host": "CONNECT a.localhost:{port} HTTP/1.1\r\n\r\n",
    "ends like a listed host": "CONNECT evillocalhost:{port} HTTP/1.1\r\n\r\n",
    "an address that is not listed": "CONNECT 127.0.0.2:{port} HTTP/1.1\r\n\r\n",
    "an IPv6 address": "CONNECT [::1]:{port} HTTP/1.1\r\n\r\n",
    "a mapped address": "CONNECT [::ffff:127.0.0.1]:{port} HTTP/1.1\r\n\r\n",
    "a decimal address": "CONNECT 2130706433:{port} HTTP/1.1\r\n\r\n",
    "a hexadecimal address": "CONNECT 0x7f.1:{port} HTTP/1.1\r\n\r\n",
    "a short address": "CONNECT 127.1:{port} HTTP/1.1\r\n\r\n",
    "an octal address": "CONNECT 0177.0.0.1:{port} HTTP/1.1\r\n\r\n",
    "another port": "CONNECT localhost:22 HTTP/1.1\r\n\r\n",
    "another port in plain": "GET http://localhost:8/a HTTP/1.1\r\n\r\n",
    "no port": "CONNECT localhost HTTP/1.1\r\n\r\n",
    "port 0": "CONNECT localhost:0 HTTP/1.1\r\n\r\n",
    "a port too large": "CONNECT localhost:99999 HTTP/1.1\r\n\r\n",
    "a user name": "GET http://localhost:{port}@example.org/ HTTP/1.1\r\n\r\n",
    "a user name before a listed host": "GET http://x@localhost:{port}/a HTTP/1.1\r\n\r\n",
    "a user name in a tunnel": "CONNECT localhost:{port}@example.org:443 HTTP/1.1\r\n\r\n",
    "a backslash": "GET http://localhost:{port}\\@example.org/ HTTP/1.1\r\n\r\n",
    "another scheme": "GET https://localhost:{port}/a HTTP/1.1\r\n\r\n",
    "a file": "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
    "no host": "GET /a HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n",
    "no host but slashes": "GET //localhost:{port}/a HTTP/1.1\r\n\r\n",
    "two lengths": GET + "Content-Length: 4\r\nContent-Length: 40\r\n\r\nbody",
    "a list of lengths": GET + "Content-Length: 4, 4\r\n\r\nbody",
    "a length with a sign": GET + "Content-Length: +4\r\n\r\nbody",
    "a coded body": GET + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length and a coded body": GET + "Content-Length: 4\r\nTransfer-Encoding: xx\r\n\r\n",
    "a space before the colon": GET + "Content-Length : 4\r\n\r\nbody",
    "a folded line": GET + "X: 1\r\n Content-Length: 4\r\n\r\nbody",
    "a bare line feed": GET + "X: 1\nContent-Length: 4\r\n\r\nbody",
    "a bare carriage return": GET + "X: 1\rY: 2\r\n\r\n",
    "a NUL": GET + "X: \0\r\n\r\n",
    "a header without a colon": GET + "X\r\n\r\n",
    "too many headers": GET + "X: 1\r\n" * 101 + "\r\n",
    "a giant header": GET + "X: " + "x" * 40_000 + "\r\n\r\n",
    "a head without an end": GET + "X: " + "x" * 40_000,
    "a method of its own": "TRACE http://localhost:{port}/a HTTP/1.1\r\n\r\n",
    "a method in small letters": "get http://localhost:{port}/a HTTP/1.1\r\n\r\n",
    "HTTP 2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP 0.9": "GET http://localhost:{port}/a\r\n\r\n",
    "letters of others": "CONNECT l\xf6calhost:{port} HTTP/1.1\r\n\r\n",
    "no HTTP at all": "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
}


async def test_request_to_an_unlisted_host_is_rejected_and_recorded() -> None:
    async with way(hosts=("localhost",)) as stream:
        for name, head in REFUSED.items():
            before = len(stream.record)
            answer = await stream.ask(head)
            assert answer.startswith("HTTP/1.1 4"), f"{name}: {answer}"
            assert [entry[1] for entry in stream.record[before:]] == [False], name
        assert stream.site.visits == []
        assert stream.proxy.session.reached_hosts == set()


async def test_private_address_behind_a_listed_name_is_rejected() -> None:
    async with way(allow=is_public) as stream:
        for host in HOSTS:
            assert "not a public address" in await stream.ask(
                f"CONNECT {host}:{{port}} HTTP/1.1\r\n\r\n"
            )
        assert stream.site.visits == []


async def test_connection_without_the_token_is_rejected() -> None:
    async with way() as stream:
        for token in (b"", b"x" * 32, stream.token[:-1] + bytes([stream.token[-1] ^ 1])):
            stream.token, result = token, stream.token
            await stream.ask(GET + "Connection: close\r\n\r\n")
            stream.token = result
        assert stream.site.visits == []
        assert [entry[1] for entry in stream.record] == [False] * 3


async def test_slow_or_silent_connection_is_closed() -> None:
    limits = ProxyLimits(head_s=0.05, idle_s=0.05, linger_s=0.05)
    async with way(limits=limits) as stream:
        stream.site.slow("/slow")
        assert "408" in await stream.ask("GET http://localhost")
        assert "200" in await stream.ask("CONNECT localhost:{port} HTTP/1.1\r\n\r\n")
        assert await stream.ask("GET http://localhost:{port}/slow HTTP/1.1\r\n\r\n") == ""
        await until(lambda: len(asyncio.all_tasks()) < 8)


async def test_long_download_is_not_idle() -> None:
    async with way(limits=ProxyLimits(idle_s=0.5)) as stream:
        stream.site.drip("/drip", pause_s=0.02, count=50)
        assert (await stream.ask("GET http://localhost:{port}/drip HTTP/1.1\r\n\r\n")).count(
            "."
        ) >= 50


async def test_bytes_and_rejections_are_limited() -> None:
    async with way(limits=ProxyLimits(max_bytes=100_000, max_refusals=2)) as stream:
        stream.site.big("/big", 5_000_000)
        big = await stream.ask("GET http://localhost:{port}/big HTTP/1.1\r\n\r\n")
        assert len(big) <= 100_000
        for _ in range(5):
            await stream.ask(REFUSED["another host"])
        refusals = [entry[2] for entry in stream.record if not entry[1]]
        assert len(refusals) == 2
        assert "further requests are ignored" in refusals[-1]


async def test_number_of_connections_is_limited() -> None:
    async with way(limits=ProxyLimits(max_connections=2)) as stream:
        stream.site.page("/a", "hello")
        for _ in range(2):
            assert "hello" in await stream.ask(GET + "\r\n")
        with pytest.raises(ConnectionError):
            await stream.dial()


async def test_connection_beyond_the_limit_is_reset_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with way(limits=ProxyLimits(max_concurrent=1)) as stream:
        stream.site.page("/a", "hello")
        _, writer = await stream.dial()
        for _ in range(2):
            assert await stream.ask(GET + "\r\n") == ""
        notes = stream.proxy.session.reason_by_refused_host
        assert notes == {"the proxy": "the limit of 1 open connections is reached"}
        assert len([line for line in caplog.messages if "are reset" in line]) == 1
        writer.close()
        # The proxy notices the end of the first connection a little later.
        while "hello" not in await stream.ask(GET + "\r\n"):
            continue


async def test_proxy_survives_a_lack_of_file_descriptors(caplog: pytest.LogCaptureFixture) -> None:
    async with way() as stream:
        stream.site.page("/a", "hello")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.create_connection(("127.0.0.1", stream.at)):
            os.close(first_free := os.dup(0))
            resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, limits[1]))
            try:
                await until(lambda: "Too many open files" in caplog.text)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert "hello" in await stream.ask(GET + "\r\n")


async def test_host_is_not_reached_if_the_record_fails() -> None:
    async def record(where: str, allowed: bool, reason: str) -> None:
        raise KoreError("the disk is full")

    async with WebSite() as site:
        port = int(site.url.rpartition(":")[2])
        async with EgressProxy.open(
            EgressGrant(HOSTS, (port,), lambda address: True), record
        ) as proxy:
            result = Way(site, proxy, *proxy.listener())
            assert "503" in await result.ask(GET + "\r\n")
            assert site.visits == []


async def test_closing_ends_all_connections() -> None:
    async with way() as stream:
        reader, writer = await stream.dial()
        writer.write(f"CONNECT localhost:{stream.port} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        idle, idle_writer = await stream.dial()
    for item in (reader, idle):
        try:
            assert await item.read() == b""
        except ConnectionError:
            continue
    writer.close()
    idle_writer.close()
    with pytest.raises(ConnectionError):
        await stream.dial()


def test_host_names_are_normalized() -> None:
    assert host_name("Example.ORG.") == "example.org"
    assert host_name("*.bücher.example") == "*.xn--bcher-kva.example"
    assert host_name("[2606:4700:0:0::1]") == "2606:4700::1"
    for wrong in (
        "",
        "*",
        "a b",
        "http://a.org",
        "a.org:80",
        "a..org",
        "127.1",
        "0x7f.1",
        "*.1.2.3.4",
    ):
        with pytest.raises(ValueError, match=r"."):
            host_name(wrong)


def test_shared_hosts_are_the_narrower_names() -> None:
    assert shared_hosts(("*.a.org", "b.org"), ("x.a.org", "*.y.a.org", "c.org")) == (
        "x.a.org",
        "*.y.a.org",
    )
    assert shared_hosts(("x.a.org", "b.org"), ("*",)) == ("x.a.org", "b.org")
    assert shared_hosts(("bücher.example",), ("xn--bcher-kva.example",)) != ()
    assert shared_hosts(("a.org",), ()) == ()
    assert shared_hosts(("a.org",), ("org", "*.a.org", "..")) == ()


async def until(true: Any) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)
