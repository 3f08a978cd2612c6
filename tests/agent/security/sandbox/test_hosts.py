"""Sandboxes with network access: Kore's proxy is the only way out."""

import asyncio
import errno
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agent.errors import ToolError
from agent.security.local_services import LocalService
from agent.security.network.egress_proxy import EgressProxy
from agent.security.network.proxy_connection import EgressGrant
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.landlock.sandbox import Landlock, kernel_abi
from tests.agent.security.sandbox.attempts import core, corpus, drive, escapes
from tests.fakes.echo_server import another_process
from tests.fakes.web import WebSite
from tests.ordinary_user import USERS

PYTHON = """python3 -c "
import asyncio, socket, threading, urllib.request
AT = ('127.0.0.1', {proxy})
GET = b'GET http://localhost:{site}/a HTTP/1.1' + bytes([13, 10]) * 2
def plain():
    with socket.create_connection(AT) as s:
        s.sendall(GET)
        print(s.makefile('rb').read()[-5:].decode())
async def events():
    r, w = await asyncio.open_connection(*AT)
    w.write(GET)
    print((await r.read())[-5:].decode())
plain()
thread = threading.Thread(target=plain); thread.start(); thread.join()
asyncio.run(events())
print(urllib.request.urlopen('http://localhost:{site}/a').read().decode())
"
"""
# Uses of a socket other than connecting.
TRICKS = (
    "s.bind(('127.0.0.1', 0))",
    "s.listen()",
    "s.connect(('127.0.0.1', {port}))",
    "s.sendto(b'x', 0x20000000, ('127.0.0.1', {port}))",
    "s.sendmsg([b'x'], [], 0x20000000, ('127.0.0.1', {port}))",
    "s.setsockopt(6, 30, 1); s.connect(('127.0.0.1', {port})); s.send(b'x')",
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))",
    "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(('127.0.0.1', {port}))",
    "socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', {port}))",
    "a, b = socket.socketpair(); a.connect('/run/dbus/system_bus_socket')",
)


@asynccontextmanager
async def serving(*services: LocalService) -> AsyncIterator[tuple[WebSite, list[Any]]]:
    """A site, and the arguments of a driver with a proxy to it and to these local services."""

    async def record(where: str, allowed: bool, reason: str) -> None:
        """Ignore the call."""

    async with WebSite() as site:
        site.page("/a", "hello")
        port = int(site.url.rpartition(":")[2])
        grant = EgressGrant(("localhost",), (port,), lambda address: True, services=services)
        async with EgressProxy.open(grant, record) as proxy:
            at, token = proxy.listener()
            yield site, [at, token.hex()]


def needs_landlock(version: int) -> None:
    if kernel_abi() < version:
        pytest.skip("this kernel's Landlock is too old")


async def test_programs_reach_the_proxy_under_landlock(place: Path) -> None:
    needs_landlock(4)
    async with serving() as (site, proxy):
        port = site.url.rpartition(":")[2]
        lines = PYTHON.replace("{proxy}", str(proxy[0])).replace("{site}", port)
        curl = f"curl -sS http://localhost:{port}/a; curl -sSp http://localhost:{port}/a; env"
        order = {"name": "landlock", "listen": True, "proxy": proxy, "lines": [lines + curl]}
        code, result, left = await asyncio.to_thread(drive, place, USERS[-1], **order)
        assert result.startswith("hello\n" * 4 + "hellohello"), result
        assert proxy[1] not in result
        assert (code, left) == (0, [])
        assert len(site.visits) == 6


# The kernel returns sent bytes on the error queue: with a socket option set before the connection,
# and with a control message on data that shares a corked packet with the token.
TIMESTAMPED = """python3 -c "
import socket, struct
for level, option, value in ((1, 37, 0x312), (1, 65, 0x312), (6, 3, 1)):
    s = socket.socket()
    s.setsockopt(level, option, value)
    s.connect(('127.0.0.1', {proxy}))
    s.sendmsg([b'x'], [(1, 37, struct.pack('I', 0x302))])
    s.setsockopt(6, 3, 0)
    s.settimeout(0.3)
    try:
        while True:
            print('bytes', s.recvmsg(4096, 4096, 0x2040)[0].hex())
    except OSError:
        pass
"
"""


async def test_token_stays_off_the_error_queue(place: Path) -> None:
    needs_landlock(4)
    async with serving() as (_, proxy):
        lines = [TIMESTAMPED.replace("{proxy}", str(proxy[0]))]
        order = {"name": "landlock", "listen": True, "proxy": proxy, "lines": lines}
        _, output, _ = await asyncio.to_thread(drive, place, USERS[-1], **order)
    assert "bytes" in output, "the error queue is never read"
    assert proxy[1] not in output


SOCKET_STATE = """python3 -c "
import fcntl, os, socket
s = socket.socket()
s.setsockopt(1, 9, 1)
s.setsockopt(6, 1, 1)
s.setsockopt(1, 20, bytes([3]) + bytes(15))
os.set_inheritable(s.fileno(), True)
s.setblocking(False)
s.connect(('127.0.0.1', {proxy}))
print(s.getsockopt(1, 9), s.getsockopt(6, 1), s.getsockopt(1, 20, 16)[0])
print(os.get_inheritable(s.fileno()), fcntl.fcntl(s, 3) & os.O_NONBLOCK == os.O_NONBLOCK)
print(s.getpeername()[1] == {proxy})
try:
    s.connect(('127.0.0.1', {proxy}))
except OSError as exc:
    print(exc.errno)
"
"""


async def test_connected_socket_keeps_its_options(place: Path) -> None:
    needs_landlock(4)
    async with serving() as (_, proxy):
        lines = [SOCKET_STATE.replace("{proxy}", str(proxy[0]))]
        order = {"name": "landlock", "listen": True, "proxy": proxy, "lines": lines}
        _, output, _ = await asyncio.to_thread(drive, place, USERS[-1], **order)
    assert output.splitlines() == ["1 1 3", "True True", "True", str(errno.EISCONN)]


TALK = """python3 -c "
import socket
with socket.create_connection(('localhost', {service})) as s:
    print(s.getpeername()[0])
    s.sendall(b'hello')
    s.shutdown(socket.SHUT_WR)
    print(s.makefile('rb').read().decode())
for port in ({other}, {service} + 1):
    try:
        socket.create_connection(('127.0.0.1', port))
    except OSError as exc:
        print(exc.errno)
"
"""


async def test_local_service_is_reached_under_landlock(place: Path) -> None:
    needs_landlock(4)

    async with another_process() as echo, another_process() as other:
        service = LocalService("127.0.0.1", echo.port)
        async with serving(service) as (_, proxy):
            line = TALK.replace("{service}", str(echo.port)).replace("{other}", str(other.port))
            order = {"name": "landlock", "listen": True, "proxy": proxy, "lines": [line]}
            order["services"] = [str(service)]
            _, output, _ = await asyncio.to_thread(drive, place, USERS[-1], **order)
    assert output.splitlines() == [
        "127.0.0.1",
        "heard hello",
        str(errno.ENETUNREACH),
        str(errno.ENETUNREACH),
    ]
    assert other.visits == 0


async def test_refused_tunnel_is_a_refused_connection_under_landlock(place: Path) -> None:
    """The proxy refuses a port of Kore although the launcher would ask for it."""
    needs_landlock(4)
    with socket.create_server(("127.0.0.1", 0)) as own:
        service = LocalService("127.0.0.1", own.getsockname()[1])
        async with serving(service) as (_, proxy):
            address = f'("127.0.0.1", {service.port})'
            line = f"python3 -c 'import socket; socket.create_connection({address})'"
            order = {"name": "landlock", "listen": True, "proxy": proxy, "lines": [line]}
            order["services"] = [str(service)]
            _, output, _ = await asyncio.to_thread(drive, place, USERS[-1], **order)
    assert "ConnectionRefusedError" in output


@pytest.mark.parametrize("name", ["bwrap", "landlock"])
async def test_other_addresses_are_unreachable(place: Path, name: str) -> None:
    if name == "landlock":
        needs_landlock(4)
    elif shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    tricks = [f'python3 -c "import socket; s = socket.socket(); {trick}"' for trick in TRICKS]
    lines = [line for line in (*core(), *corpus()) if "{port}" in line or "socket" in line]
    async with serving() as (site, proxy):
        order = {"name": name, "proxy": proxy, "lines": [*tricks, *lines]}
        assert await asyncio.to_thread(escapes, place, USERS[-1], **order) == []
        assert site.visits == []


def test_older_landlock_refuses_network_access(tmp_path: Path) -> None:
    class Way:
        has_hosts = True
        targets = ()
        host_addresses: ClassVar[dict[str, str]] = {}
        services = ()

        def channel(self) -> tuple[int, str, tuple[str, ...]]:
            raise AssertionError

        def listener(self) -> tuple[int, bytes]:
            raise AssertionError

    job = SandboxCommand("true", tmp_path, tmp_path, egress=Way())
    with pytest.raises(ToolError, match=r"root|exec_hosts"), Landlock(3).prepare(job):
        raise AssertionError
