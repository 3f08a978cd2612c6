"""Targets as root and as an ordinary user, under bubblewrap and Landlock."""

import asyncio
import importlib.util
import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.security.network.proxy_connection import ProxyLimits
from agent.security.network.socket_supervisor import MAX_WAITING_CALLS
from tests.fakes.echo_server import another_process
from tests.ordinary_user import USERS, require_sandbox, run_as, shared_place

PROGRAM = Path("tests", "agent", "security", "network", "targets_program.py")
# Libraries of the proxy.
_LIBRARIES = ("yarl", "multidict", "propcache", "idna")
# Prints the answer of each place, or the name of the error.
_CLIENT = r"""
import asyncio, json, os, socket, sys
def talk(place, flags=0):
    host, _, port = place.rpartition(":")
    kind = socket.AF_UNIX if host == "unix" else socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind) as s:
        s.settimeout(20 if not flags else None)
        s.connect(port if host == "unix" else (host, int(port)))
        s.sendall(b"hello")
        s.shutdown(socket.SHUT_WR)
        return s.makefile("rb").read().decode()
async def events(place):
    host, _, port = place.rpartition(":")
    r, w = await asyncio.open_connection(host, int(port))
    w.write(b"hello"); w.write_eof()
    return (await r.read()).decode()
answers = []
for place in sys.argv[1:]:
    for work in (talk, lambda p: talk(p, 1), lambda p: asyncio.run(events(p))):
        try:
            answers.append(work(place))
        except OSError as exc:
            answers.append(type(exc).__name__)
print(json.dumps(answers))
"""


def client(*places: str) -> str:
    return f"python3 -c {shlex.quote(_CLIENT)} {shlex.join(places)}"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with shared_place(PROGRAM) as folder:
        for name in _LIBRARIES:
            spec = importlib.util.find_spec(name)
            assert spec is not None
            assert spec.origin is not None
            shutil.copytree(Path(spec.origin).parent, folder / name)
        yield folder


async def drive(user: str, place: Path, name: str, line: str, *network: str) -> list[Any]:
    order = {"name": name, "line": line, "network": network}
    result: list[Any] = await asyncio.to_thread(run_as, user, place, PROGRAM, order)
    return result


@pytest.mark.parametrize("user", USERS)
async def test_target_is_reached_by_blocking_and_other_sockets(user: str, place: Path) -> None:
    """127.0.0.2 stands for another machine: no listener of the sandbox has this address."""
    require_sandbox("bwrap")
    async with another_process("127.0.0.2") as echo, another_process("127.0.0.2") as other:
        there, closed = f"127.0.0.2:{echo.port}", f"127.0.0.2:{other.port}"
        output, reached, _ = await drive(
            user, place, "bwrap", client(there, f"::ffff:{there}", closed), there
        )
    assert json.loads(output) == ["heard hello"] * 6 + ["ConnectionRefusedError"] * 3
    assert reached == [there]
    assert other.visits == 0


# Attempts to reach the listener for targets itself, or a socket that is replaced or reused.
_TRICKS = r"""
import socket, struct, sys, threading
port, other = int(sys.argv[1]), int(sys.argv[2])
def listeners():
    for line in list(open("/proc/self/net/tcp"))[1:]:
        words = line.split()
        if words[3] == "0A":
            yield int(words[1].rpartition(":")[2], 16)
def attempt(work):
    try:
        print(work() or "nothing")
    except OSError as exc:
        print(type(exc).__name__)
def direct():
    s = socket.create_connection(("127.0.0.1", next(listeners())), 20)
    s.sendall(b"hello"); s.shutdown(1)
    return s.makefile("rb").read().decode()
def again():
    s = socket.socket(); s.settimeout(20)
    s.connect(("127.0.0.2", port))
    s.connect(("127.0.0.2", other))
def unspecified():
    s = socket.socket(); s.settimeout(20)
    s.connect(("127.0.0.2", port))
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.connect(s.fileno(), bytes(16), 16)
    s.connect(("127.0.0.2", other))
def fast_open():
    s = socket.socket()
    s.sendto(b"hello", 0x20000000, ("127.0.0.2", other))
def same_port():
    # The kernel may not use the address of a connection for another destination.
    s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(("127.0.0.1", 4000)); s.settimeout(20)
    s.connect(("127.0.0.2", port))
    t = socket.socket(); t.setsockopt(1, 2, 1); t.bind(("127.0.0.1", 4001)); t.settimeout(20)
    t.connect(("127.0.0.1", next(listeners())))
    t.sendall(b"hello"); t.shutdown(1)
    return t.makefile("rb").read().decode()
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("127.0.0.2", port))
    s.send(b"hello")
    s.settimeout(1)
    return s.recv(100)
for work in (direct, again, unspecified, fast_open, same_port, udp):
    attempt(work)
"""


@pytest.mark.parametrize("user", USERS)
async def test_tricks_with_sockets_reach_only_the_target(user: str, place: Path) -> None:
    require_sandbox("bwrap")
    async with another_process("127.0.0.2") as echo, another_process("127.0.0.2") as other:
        line = f"python3 -c {shlex.quote(_TRICKS)} {echo.port} {other.port}"
        there = f"127.0.0.2:{echo.port}"
        output, reached, _ = await drive(user, place, "bwrap", line, there)
    assert "heard" not in output
    assert len(output.splitlines()) == 6, output
    assert reached == [there]
    assert other.visits == 0


# Connects and resets at once, to a target, to a silent address and to the listener itself.
_RESETS = r"""
import socket, struct, sys
port, silent = int(sys.argv[1]), int(sys.argv[2])
def listener():
    lines = [line.split() for line in list(open("/proc/self/net/tcp"))[1:]]
    return next(int(words[1].rpartition(":")[2], 16) for words in lines if words[3] == "0A")
for place in [("127.0.0.2", port), ("127.0.0.2", silent), ("127.0.0.1", listener())] * 30:
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.connect(place)
    s.close()
"""


@pytest.mark.parametrize("user", USERS)
async def test_connections_that_are_reset_at_once_close_nothing(user: str, place: Path) -> None:
    require_sandbox("bwrap")
    async with another_process("127.0.0.2") as echo:
        async with another_process("127.0.0.2") as ended:
            silent = f"127.0.0.2:{ended.port}"
        there = f"127.0.0.2:{echo.port}"
        line = f"python3 -c {shlex.quote(_RESETS)} {echo.port} {ended.port}; {client(there)}"
        output, _, refused = await drive(user, place, "bwrap", line, there, silent)
    assert json.loads(output) == ["heard hello"] * 3
    assert refused == [silent]


# Opens more connections than Kore serves at once, and more than the kernel queues.
_MANY = r"""
import socket, sys
place = ("127.0.0.2", int(sys.argv[1]))
def send(s):
    try:
        s.sendall(b"hello"); s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
def answer(s):
    try:
        return s.makefile("rb").read().decode() or "reset"
    except OSError:
        return "reset"
sockets = []
for number in range(400):
    s = socket.socket()
    s.connect(place)
    sockets.append(s)
for s in sockets:
    send(s)
answers = [answer(s) for s in sockets]
print(answers.count("heard hello"), answers.count("reset"))
del sockets
s = socket.socket(); s.connect(place); send(s)
print(answer(s))
"""


async def test_connections_beyond_the_limit_are_reset_and_noted(place: Path) -> None:
    require_sandbox("bwrap")
    async with another_process("127.0.0.2") as echo:
        there = f"127.0.0.2:{echo.port}"
        line = f"python3 -c {shlex.quote(_MANY)} {echo.port}"
        output, reached, refused = await drive(USERS[-1], place, "bwrap", line, there)
    served = ProxyLimits().max_concurrent
    assert output.splitlines() == [f"{served} {400 - served}", "heard hello"]
    assert reached == [there]
    assert refused == [there]


# Makes more blocking calls to its own full listener than may wait, then reaches the target.
_MANY_WAITING = r"""
import errno, os, queue, socket, sys, threading
own = socket.create_server(("127.0.0.1", 0), backlog=0)
refused = queue.Queue()
def fill():
    try:
        socket.socket().connect(own.getsockname())
    except OSError as exc:
        refused.put(errno.errorcode[exc.errno])
for number in range(int(sys.argv[2]) + 20):
    threading.Thread(target=fill, daemon=True).start()
print(*{refused.get() for number in range(15)})
s = socket.create_connection(("127.0.0.2", int(sys.argv[1])))
s.sendall(b"hello"); s.shutdown(socket.SHUT_WR)
print(s.makefile("rb").read().decode(), flush=True)
os._exit(0)
"""


async def test_limited_number_of_connections_waits_without_delaying_others(place: Path) -> None:
    """Each waiting connection occupies a descriptor of Kore."""
    require_sandbox("bwrap")
    async with another_process("127.0.0.2") as echo:
        line = f"python3 -c {shlex.quote(_MANY_WAITING)} {echo.port} {MAX_WAITING_CALLS}"
        there = f"127.0.0.2:{echo.port}"
        output, _, _ = await drive(USERS[-1], place, "bwrap", line, there)
    assert output.splitlines() == ["EAGAIN", "heard hello"]


# Uses one port for two targets in turn, and asks for the result of each connection by a second
# call, as Twisted does.
_ONE_PORT = r"""
import select, socket, struct, sys
for port in list(map(int, sys.argv[1:])) * 30:
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.bind(("127.0.0.1", 4000))
    s.setblocking(False)
    s.connect_ex(("127.0.0.2", port))
    select.select([], [s], [])
    s.connect_ex(("127.0.0.2", port))
    s.setblocking(True)
    s.sendall(str(port).encode()); s.shutdown(socket.SHUT_WR)
    print(s.makefile("rb").read().decode())
    s.close()
# The port leads nowhere once its connection has ended.
lines = [line.split() for line in list(open("/proc/self/net/tcp"))[1:]]
listener = next(int(words[1].rpartition(":")[2], 16) for words in lines if words[3] == "0A")
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 4000))
s.connect(("127.0.0.1", listener))
try:
    s.sendall(b"secret"); s.shutdown(socket.SHUT_WR)
    print(s.makefile("rb").read().decode())
except OSError:
    print("reset")
"""


async def test_reused_port_leads_to_the_new_target(place: Path) -> None:
    require_sandbox("bwrap")
    async with another_process("127.0.0.2") as first, another_process("127.0.0.2") as second:
        line = f"python3 -c {shlex.quote(_ONE_PORT)} {first.port} {second.port}"
        network = [f"127.0.0.2:{echo.port}" for echo in (first, second)]
        output, _, _ = await drive(USERS[-1], place, "bwrap", line, *network)
    answers = ["heard", str(first.port), "heard", str(second.port)] * 30
    assert output.split() == [*answers, "reset"]
    assert first.visits == 30
    assert second.visits == 30


async def test_landlock_refuses_targets_with_a_reason(place: Path) -> None:
    require_sandbox("landlock")
    user = USERS[-1]
    for network in ("nas.test:22", "10.0.0.0/8:5432", "127.0.0.1:80"):
        output, reached, _ = await drive(user, place, "landlock", "true", network)
        assert f"it may reach {network} (`network`), which needs bubblewrap" in output
        assert reached == []
