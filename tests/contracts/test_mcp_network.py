"""Targets of MCP servers: a real server in bubblewrap, with HTTP, PostgreSQL and Unix sockets."""

import asyncio
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agent.errors import ToolError
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.security.local_services import OwnServices
from agent.security.sandbox.landlock.sandbox import Landlock
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.types import ToolCall
from tests import fakes
from tests.agent.tools.bubblewrap import installed_bubblewrap
from tests.fakes.echo_server import another_process
from tests.other_machine import PYTHON, OtherMachine, forward_here, other_machine
from tests.postgres_server import create_database, programs

pytest.importorskip("mcp", reason="needs the extra mcp")
SERVER = Path(fakes.__file__).with_name("network_mcp_server.py")
_START_TIMEOUT_S = 60.0
# A site that answers with its page, or leads elsewhere: GET /to/HOST:PORT.
_SITE = """
import http.server, sys
class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_page = self.path == "/page"
        self.send_response(200 if is_page else 302)
        if not is_page:
            self.send_header("Location", "http://" + self.path.removeprefix("/to/"))
        self.end_headers()
        self.wfile.write(b"a page" if is_page else b"")
    def log_message(self, *words): pass
with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""


class Calls:
    """Calls of the server's tools."""

    def __init__(self, servers: McpServers, folder: Path) -> None:
        self._servers, self._folder = servers, folder

    async def __call__(self, tool: str, **args: Any) -> str:
        mcp_tool = next(each for each in self._servers.mcp_tools() if each.definition.name == tool)
        call = ToolCall("1", mcp_tool.name, args, json.dumps(args))
        environment = ToolEnvironment("s", self._folder, self._folder / "M.md", owner=True)
        context = CallContext(call, environment, lambda text, stream: None)
        text: str = (await mcp_tool.run(args, context)).for_model
        return text

    @property
    def log(self) -> str:
        return (self._servers.folder_of("n") / "log").read_text()


@asynccontextmanager
async def calling(
    folder: Path, *network: str, own: OwnServices | None = None, **reach: Any
) -> AsyncIterator[Calls]:
    """Run the server in bubblewrap with this `network`."""
    command = (PYTHON, ("-B", str(SERVER)))
    server = McpServerSettings("n", *command, network=network, start_timeout_s=_START_TIMEOUT_S)
    settings = ToolSettings(sandbox=installed_bubblewrap(), own_services=own or OwnServices())
    configured = McpSettings((server,), folder / "mcp")
    servers = McpServers(configured, settings, reach, first_listing_timeout_s=_START_TIMEOUT_S)
    try:
        assert await servers.load() == []
        yield Calls(servers, folder)
    finally:
        await servers.aclose()


@pytest.fixture
def machine() -> Iterator[OtherMachine]:
    with other_machine() as machine:
        yield machine


@pytest.fixture
async def site() -> AsyncIterator[int]:
    """Yield the port of a web site of this machine, in another process: this one counts as
    Kore."""
    process = await asyncio.create_subprocess_exec(
        PYTHON, "-c", _SITE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


def own_address() -> str:
    """Return an address of this machine that other machines reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.99", 9))
        except OSError:
            pytest.skip("this machine has no network")
        address: str = probe.getsockname()[0]
    return address


@pytest.mark.parametrize("further", [(), ("*",)])
async def test_http_server_of_this_machine_is_reached_at_its_port(
    tmp_path: Path, site: int, further: tuple[str, ...]
) -> None:
    """With public hosts, programs have a proxy, which they do not need here."""
    async with calling(tmp_path, f"127.0.0.1:{site}", *further) as call:
        for host in ("127.0.0.1", "localhost"):
            assert await call("fetch", url=f"http://{host}:{site}/page") == "a page"


async def test_everything_else_on_this_machine_stays_closed(tmp_path: Path, site: int) -> None:
    async with another_process() as other, calling(tmp_path, f"127.0.0.1:{site}", "*") as call:
        for host in ("127.0.0.1", "localhost", "::1", "127.0.0.2", "0.0.0.0", own_address()):
            assert "Error" in await call("talk", host=host, port=other.port, text="hello")
        assert "Error" in await call("fetch", url=f"http://127.0.0.1:{site}/to/{other.service}/")
        # The proxy, which redirected programs use for hosts that are not loopback.
        far = f"http://{own_address()}:{other.port}/"
        assert "403" in await call("fetch", url=far)
        redirect = f"http://127.0.0.1:{site}/to/{own_address()}:{other.port}/"
        assert "403" in await call("fetch", url=redirect)
    assert other.visits == 0


async def test_unix_socket_is_reached(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="kore-sockets-", dir="/var/tmp"))
    try:
        async with (
            another_process(str(folder / "a")),
            another_process(str(folder / "b")) as other,
            calling(tmp_path, f"unix:{folder}/a") as call,
        ):
            assert await call("talk", path=f"{folder}/a", text="hi") == "heard hi"
            assert "PermissionError" in await call("talk", path=f"{folder}/b", text="hi")
        assert other.visits == 0
    finally:
        shutil.rmtree(folder)


async def test_socket_of_kore_stays_closed(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="kore-sockets-", dir="/var/tmp"))
    try:
        own = OwnServices(paths=(folder,))
        async with (
            another_process(str(folder / "kore.sock")) as other,
            calling(tmp_path, f"unix:{folder}/kore.sock", own=own) as call,
        ):
            assert "Error" in await call("talk", path=f"{folder}/kore.sock", text="hi")
            assert "belongs to Kore itself, which no command can reach. (network)" in call.log
        assert other.visits == 0
    finally:
        shutil.rmtree(folder)


@pytest.mark.counterpart("PostgreSQL")
async def test_database_of_this_machine_answers_an_mcp_server(tmp_path: Path) -> None:
    path, psql = postgres("127.0.0.1")
    async with forward_here(path) as port, calling(tmp_path, f"127.0.0.1:{port}") as call:
        assert await call("run", argv=[*psql, "-p", str(port)]) == "42\n"


@pytest.mark.parametrize("name", ["nas.test", "address"])
async def test_database_of_another_machine_answers(
    tmp_path: Path, machine: OtherMachine, name: str
) -> None:
    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return (machine.address,)

    host = machine.address if name == "address" else name
    path, psql = postgres(host)
    async with (
        machine.forward(path, 5432),
        calling(tmp_path, f"{host}:5432", resolve=resolve) as call,
    ):
        assert await call("run", argv=psql) == "42\n"


def postgres(host: str) -> tuple[str, list[str]]:
    """Return the socket of a database, and a command that uses it by TCP and prints 42."""
    if (folder := programs()) is None:
        pytest.skip("PostgreSQL is not installed")
    database = urlsplit(create_database())
    sql = "create table t(a int); insert into t values (20), (22); select sum(a) from t"
    psql = [f"{folder}/psql", "-h", host, "-U", "kore", "-d", database.path[1:], "-Atqc", sql]
    return f"{database.query.removeprefix('host=')}/.s.PGSQL.5432", psql


async def test_range_and_all_ports_are_reached_by_plain_sockets(
    tmp_path: Path, machine: OtherMachine
) -> None:
    """Also at a port that no program could open in its own network."""
    async with machine.echo(25), machine.echo(8443):
        async with calling(tmp_path, f"{machine.range}:25") as call:
            assert await call("talk", host=machine.address, port=25, text="a") == "heard a"
            mapped = f"::ffff:{machine.address}"
            assert await call("talk", host=mapped, port=25, text="b") == "heard b"
            assert "Error" in await call("talk", host=machine.address, port=8443, text="c")
        async with calling(tmp_path / "2", f"{machine.address}:*") as call:
            for port in (25, 8443):
                assert await call("talk", host=machine.address, port=port, text="d") == "heard d"


async def test_other_ports_of_a_named_host_are_refused_in_the_log(
    tmp_path: Path, machine: OtherMachine
) -> None:
    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return (machine.address,)

    async with (
        machine.echo(8443),
        calling(tmp_path, "nas.test:22", resolve=resolve) as call,
    ):
        assert "Error" in await call("talk", host="nas.test", port=8443, text="a")
        assert "[network: nas.test:8443 refused" in call.log
        assert "Error" in await call("talk", host="nas.test", port=22, text="a")
        assert "[network: nas.test:22 not reached, nothing answers" in call.log


async def test_name_leads_to_no_address_of_this_machine(tmp_path: Path) -> None:
    """Someone who controls the name can change its addresses at any time."""
    async with another_process() as loopback, another_process("0.0.0.0") as outside:
        addresses = [*("127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1"), own_address()]

        async def resolve(host: str, port: int) -> tuple[str, ...]:
            return tuple(addresses)

        async with calling(tmp_path, "nas.test:*", "*", resolve=resolve) as call:
            for port in (loopback.port, outside.port):
                assert "Error" in await call("talk", host="nas.test", port=port, text="a")
                assert f"[network: nas.test:{port} refused" in call.log
                assert "Error" in await call("fetch", url=f"http://nas.test:{port}/")
    assert loopback.visits + outside.visits == 0


async def test_checked_address_is_the_one_that_is_reached(
    tmp_path: Path, machine: OtherMachine
) -> None:
    """The second lookup of the name would lead to this machine."""
    lookups: list[str] = []

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        lookups.append(host)
        return (machine.address,) if len(lookups) == 1 else ("127.0.0.1",)

    async with machine.echo(7000), calling(tmp_path, "nas.test:7000", resolve=resolve) as call:
        assert await call("talk", host="nas.test", port=7000, text="a") == "heard a"
        assert len(lookups) == 1
        assert "Error" in await call("talk", host="nas.test", port=7000, text="a")


async def test_ports_of_kore_stay_closed(tmp_path: Path) -> None:
    """Also at another address of this machine, in a range, and those of another process."""
    address = own_address()
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        places = (f"127.0.0.1:{port}", f"{address}:*", f"{address.rpartition('.')[0]}.0/24:{port}")
        for number, place in enumerate(places):
            async with calling(tmp_path / str(number), place) as call:
                for host in ("127.0.0.1", address):
                    assert "Error" in await call("talk", host=host, port=port, text="a")
        async with another_process("0.0.0.0") as other:
            own = OwnServices(find_ports=lambda: [other.port])
            async with calling(tmp_path / "o", f"{address}:{other.port}", own=own) as call:
                assert "Error" in await call("talk", host=address, port=other.port, text="a")
                assert "belongs to Kore itself" in call.log
        assert other.visits == 0
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("entry", ["nas.test:22", "127.0.0.1:8123", "unix:/run/x.sock"])
async def test_server_with_targets_does_not_start_in_a_sandbox_without_them(
    tmp_path: Path, entry: str
) -> None:
    server = McpServerSettings("n", sys.executable, (str(SERVER),), network=("*", entry))
    settings = ToolSettings(sandbox=Landlock(3))
    servers = McpServers(McpSettings((server,), tmp_path), settings)
    with pytest.raises(ToolError, match=f"it may reach {entry} .* needs bubblewrap"):
        await servers.refresh("n")
    await servers.aclose()


async def test_invalid_entry_is_named(tmp_path: Path) -> None:
    server = McpServerSettings("n", sys.executable, (str(SERVER),), network=("127.0.0.1:*",))
    settings = ToolSettings(sandbox=installed_bubblewrap())
    servers = McpServers(McpSettings((server,), tmp_path), settings)
    with pytest.raises(ToolError, match=r"`network`: 127.0.0.1:\*: name each address and port"):
        await servers.refresh("n")
    await servers.aclose()
