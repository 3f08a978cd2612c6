"""Local services that commands in bubblewrap may reach, and everything that remains closed."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from agent.errors import ToolError
from agent.prompts import load_prompt
from agent.security.local_services import LocalService, OwnServices, split_services
from agent.security.policy.base import PermissionMode, ToolRequest
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.security.policy.roles import Role, ToolRule
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.environment import Toolchains
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import exfiltration_objection
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec
from agent.tools.shell.process_tool import ProcessTool
from agent.types import ToolResult
from tests.fakes.echo_server import EchoServer, another_process
from tests.postgres_server import create_database, programs

CLIENT = """/usr/bin/python3 -c '
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as s:
    s.sendall(b"hello")
    s.shutdown(socket.SHUT_WR)
    print(s.makefile("rb").read().decode())
' """


@pytest.fixture
async def echo() -> AsyncIterator[EchoServer]:
    async with another_process() as server:
        yield server


@pytest.fixture
def own_port() -> Iterator[int]:
    """Yield a port at which this process, and so Kore, listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def tool(box: Any, *services: str, **settings: Any) -> Exec:
    return Exec(ToolSettings(sandbox=box, exec_local=services, **settings))


async def run(tool: Exec, call: CallContext, command: str, **arguments: Any) -> ToolResult:
    args = {"command": command, **arguments}
    return await tool.run(args, replace(call, plan=await tool.plan(args, call)))


async def test_service_answers_at_its_own_address(
    box: Bubblewrap, call: CallContext, echo: EchoServer
) -> None:
    result = await run(tool(box), call, f"{CLIENT} 127.0.0.1 {echo.port}", network=echo.service)
    assert result.for_model == "heard hello\n[exit code 0]"


@pytest.mark.parametrize("name", ["localhost", "::1"])
async def test_service_answers_at_localhost_by_both_protocols(
    name: str, box: Bubblewrap, call: CallContext, echo: EchoServer
) -> None:
    result = await run(tool(box, echo.service), call, f"{CLIENT} {name} {echo.port}")
    assert "heard hello" in result.for_model


async def test_service_at_ipv6_is_reached(box: Bubblewrap, call: CallContext) -> None:
    async with another_process("::1") as echo:
        result = await run(tool(box, f"[::1]:{echo.port}"), call, f"{CLIENT} ::1 {echo.port}")
    assert "heard hello" in result.for_model


async def test_other_port_stays_closed(
    box: Bubblewrap, call: CallContext, echo: EchoServer
) -> None:
    async with another_process() as other:
        exec_ = tool(box, echo.service)
        result = await run(exec_, call, f"{CLIENT} 127.0.0.1 {other.port} 2>&1 | tail -1")
        assert "refused" in result.for_model
    assert other.visits == 0


async def test_unreached_service_is_named_with_the_way_to_it(
    box: Bubblewrap, call: CallContext, echo: EchoServer
) -> None:
    result = await run(tool(box), call, f"{CLIENT} 127.0.0.1 {echo.port} 2>&1 | tail -1; exit 1")
    assert load_prompt("sandbox/own_network") in result.for_model
    assert f'network: "{echo.service}"' in result.for_model


async def test_port_without_a_listener_names_no_service(box: Bubblewrap, call: CallContext) -> None:
    async with another_process() as echo:
        port = echo.port
    result = await run(tool(box), call, f"{CLIENT} 127.0.0.1 {port} 2>&1 | tail -1; exit 1")
    assert load_prompt("sandbox/own_network") in result.for_model
    assert "network:" not in result.for_model


async def test_port_of_kore_is_refused_before_a_question(
    box: Bubblewrap, call: CallContext, own_port: int
) -> None:
    with pytest.raises(ToolError, match="belongs to Kore itself"):
        await tool(box).plan({"command": "ls", "network": f"127.0.0.1:{own_port}"}, call)
    configured = tool(box, own_services=OwnServices((5000,), find_ports=lambda: [6000]))
    for port in (5000, 6000):
        with pytest.raises(ToolError, match="belongs to Kore itself"):
            await configured.plan({"command": "ls", "network": f"localhost:{port}"}, call)


async def test_port_of_kore_is_refused_although_the_settings_list_it(
    box: Bubblewrap, call: CallContext, own_port: int
) -> None:
    command = f"{CLIENT} 127.0.0.1 {own_port} 2>&1 | tail -1"
    result = await run(tool(box, f"127.0.0.1:{own_port}"), call, command)
    assert "heard" not in result.for_model
    assert "belongs to Kore itself" in result.for_model


async def test_service_that_does_not_answer_is_named(box: Bubblewrap, call: CallContext) -> None:
    async with another_process() as echo:
        pass
    result = await run(tool(box, echo.service), call, f"{CLIENT} 127.0.0.1 {echo.port} 2>/dev/null")
    assert f"[not reached: {echo.service}, nothing answers" in result.for_model
    assert result.taint == frozenset()


LATE_SERVER = """
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen()
c = s.accept()[0]
while c.recv(99): pass
c.sendall(b"heard")
"""


async def test_service_that_answers_in_the_end_is_not_named(
    box: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    async with another_process() as echo:
        pass
    wait = f'until [ "$({CLIENT} 127.0.0.1 {echo.port} 2>&1)" = heard ]; do touch tried; done'
    work = asyncio.create_task(run(tool(box, echo.service), call, wait))
    async with asyncio.timeout(30):
        while not (workspace / "tried").exists():
            await asyncio.sleep(0.01)
    server = await asyncio.create_subprocess_exec(
        "/usr/bin/python3", "-c", LATE_SERVER, str(echo.port)
    )
    assert "not reached" not in (await work).for_model
    await server.wait()


@pytest.mark.parametrize(
    "network",
    ["192.0.2.1:5432", "169.254.169.254:8080", "127.0.0.53:5353", "example.org:5432",
     "[::ffff:127.0.0.1]:5432", "[2001:db8::1]:5432", "0.0.0.0:5432", "127.0.0.1:80",
     "127.0.0.1:0", "127.0.0.1:65536", "127.1:5432", "2130706433:5432", "127.0.0.1:5432/x",
     "*:5432", "x@127.0.0.1:5432", "localhost", "127.0.0.1", "::1"],
)  # fmt: skip
async def test_only_a_port_of_loopback_is_a_local_service(
    network: str, box: Bubblewrap, call: CallContext
) -> None:
    with pytest.raises(ToolError):
        await tool(box).plan({"command": "ls", "network": network}, call)


async def test_plan_names_services_in_their_normal_form(box: Bubblewrap, call: CallContext) -> None:
    words = "localhost:5432 [0:0:0:0:0:0:0:1]:5432 127.0.0.1:5432 site.test"
    plan = await tool(box).plan({"command": "ls", "network": words}, call)
    assert plan.network == ("127.0.0.1:5432", "[::1]:5432", "site.test")


async def test_service_of_the_settings_needs_no_question(
    box: Bubblewrap, call: CallContext
) -> None:
    plan = await tool(box, "127.0.0.1:5432").plan(
        {"command": "make", "network": "localhost:5432"}, call
    )
    assert plan.network == ()
    assert plan.hosts == ("127.0.0.1:5432",)


async def test_services_of_the_settings_are_the_owner_s(box: Bubblewrap, call: CallContext) -> None:
    exec_ = tool(box, "127.0.0.1:5432")
    guest = replace(call, environment=replace(call.environment, owner=False))

    async def hosts(call: CallContext) -> tuple[str, ...]:
        return (await exec_.plan({"command": "make"}, call)).hosts

    assert await hosts(guest) == ()
    assert await hosts(replace(guest, hosts=("*",))) == ()
    assert await hosts(replace(guest, hosts=("127.0.0.1:5432",))) == ("127.0.0.1:5432",)
    assert await hosts(replace(call, hosts=("example.org",))) == ()
    assert await hosts(replace(call, hosts=("*",))) == ("127.0.0.1:5432",)
    limited = replace(call, hosts=("example.org",))
    with pytest.raises(ToolError, match="role"):
        await exec_.plan({"command": "ls", "network": "127.0.0.1:5432"}, limited)


def request_for(call: CallContext, *network: str, **facts: Any) -> ToolRequest:
    return ToolRequest(
        "exec", "unsafe", {"command": "make"}, call.workspace, command="make",
        folder=call.workspace, hosts=network, network=network, **facts,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto"])
async def test_question_says_what_access_means(mode: PermissionMode, call: CallContext) -> None:
    context = PrincipalContext(built_in_roles()["build"], mode, is_confined=True)
    decision = RolePolicy(context).decide(request_for(call, "127.0.0.1:5432"))
    assert (decision.verdict, decision.rule) == ("ask", "ask-network")
    assert "act with their own rights" in decision.reason
    assert "root" not in decision.reason
    engine = RolePolicy(context).decide(request_for(call, "127.0.0.1:2375"))
    assert "root on this machine" in engine.reason


def test_role_without_the_service_denies(call: CallContext) -> None:
    role = Role("r", {"exec": ToolRule(hosts=("example.org",))})
    decision = RolePolicy(PrincipalContext(role, "auto", is_confined=True)).decide(
        request_for(call, "127.0.0.1:5432")
    )
    assert (decision.verdict, decision.rule) == ("deny", "role-hosts")


def test_service_is_no_way_out_unless_it_controls_containers(call: CallContext) -> None:
    taint: Any = frozenset({"untrusted", "private"})
    assert exfiltration_objection(request_for(call, "127.0.0.1:5432", taint=taint)) is None
    assert exfiltration_objection(request_for(call, "127.0.0.1:2375", taint=taint)) is not None
    mixed = request_for(call, "127.0.0.1:5432", "example.org", taint=taint)
    assert exfiltration_objection(mixed) is not None


async def test_connection_is_recorded_and_taints_the_output(
    box: Bubblewrap, call: CallContext, echo: EchoServer, workspace: Path
) -> None:
    entries: list[tuple[bool, dict[str, Any]]] = []

    async def record(allowed: bool, reason: str, what: Any) -> None:
        entries.append((allowed, dict(what)))

    call = replace(call, record=record)
    result = await run(tool(box, echo.service), call, f"{CLIENT} 127.0.0.1 {echo.port} >heard")
    assert entries == [(True, {"host": echo.service})]
    assert result.taint == {"untrusted"}
    assert is_marked(workspace / "heard")


async def test_service_alone_sets_no_proxy(
    box: Bubblewrap, call: CallContext, echo: EchoServer
) -> None:
    result = await run(tool(box, echo.service), call, "env; touch x")
    assert "proxy" not in result.for_model.lower()
    both = tool(box, echo.service, exec_hosts=("example.org",))
    assert "http_proxy" in (await run(both, call, "env; touch x")).for_model


def test_service_alone_leaves_packages_available(tmp_path: Path) -> None:
    class Way:
        has_hosts = False
        targets = ()
        host_addresses: ClassVar[dict[str, str]] = {}
        services = (LocalService("127.0.0.1", 5432),)

    tools = Toolchains(cache_variables={"GOPROXY": "file"})
    job = SandboxCommand("true", tmp_path, tmp_path, egress=Way())  # type: ignore[arg-type]
    assert tools.variables_of(job) == {"GOPROXY": "file"}


async def test_program_that_uses_the_proxy_reaches_the_service(
    box: Bubblewrap, call: CallContext, echo: EchoServer
) -> None:
    exec_ = tool(box, echo.service, exec_hosts=("example.org",))
    tunnel = (
        "/usr/bin/python3 -c '\nimport base64, os, socket, sys, urllib.parse as u\n"
        'p = u.urlsplit(os.environ["http_proxy"])\n'
        "s = socket.create_connection((p.hostname, p.port), 10)\n"
        'a = base64.b64encode(f"kore:{p.password}".encode()).decode()\n'
        's.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nProxy-Authorization: Basic {a}'
        '\\r\\n\\r\\n".encode())\n'
        "print(s.recv(39).decode().split()[1])\n'"
    )
    assert (await run(exec_, call, f"{tunnel} {echo.service}")).for_model.startswith("200\n")
    other = f"{tunnel} 127.0.0.1:{echo.port + 1}"
    assert (await run(exec_, call, other)).for_model.startswith("403\n")


async def test_other_commands_cannot_use_a_granted_service(
    box: Bubblewrap, call: CallContext, echo: EchoServer
) -> None:
    """A command in the background waits for the service of a command that a person allowed."""
    exec_ = tool(box)
    spy = (
        f"while :; do exec 3<>/dev/tcp/127.0.0.1/{echo.port} && echo reached >>spied;"
        " sleep 0.02; done"
    )
    await run(exec_, call, spy, background=True)
    command = f"for n in $(seq 10); do {CLIENT} 127.0.0.1 {echo.port}; sleep 0.05; done"
    result = await run(exec_, call, command, network=echo.service)
    await exec_.aclose()
    assert result.for_model.count("heard hello") == 10
    assert not (call.workspace / "spied").exists()


async def test_commands_that_share_a_network_reach_the_service_of_the_settings(
    box: Bubblewrap, call: CallContext, echo: EchoServer
) -> None:
    exec_ = tool(box, echo.service)
    await run(exec_, call, "sleep 600", background=True)
    command = f"{CLIENT} 127.0.0.1 {echo.port}"
    for _ in range(2):
        assert "heard hello" in (await run(exec_, call, command)).for_model
    await exec_.aclose()


async def test_background_command_reaches_services_of_the_settings(
    box: Bubblewrap, call: CallContext, echo: EchoServer
) -> None:
    exec_ = tool(box, echo.service, "127.0.0.1:2375", exec_hosts=("example.org",))
    command = f"{CLIENT} 127.0.0.1 {echo.port}"
    plan = await exec_.plan({"command": command, "background": True}, call)
    assert plan.hosts == (echo.service,)
    output = await run(exec_, call, command, background=True)
    text = output.for_model
    process = ProcessTool(ToolSettings(), exec_.processes)
    async with asyncio.timeout(30):
        while "exit code" not in text:
            output = await process.run({"action": "output", "wait_s": 5}, call)
            text += output.for_model
    await exec_.aclose()
    assert "heard hello" in text
    assert output.taint == {"untrusted"}


async def test_background_command_reaches_a_granted_service(
    box: Bubblewrap, call: CallContext, echo: EchoServer
) -> None:
    """Other commands of the conversation do not, and hosts and engines cannot be asked for."""
    exec_ = tool(box)
    command = f"{CLIENT} 127.0.0.1 {echo.port}; sleep 600"
    args = {"command": command, "background": True, "network": echo.service}
    plan = await exec_.plan(args, call)
    assert (plan.network, plan.hosts) == ((echo.service,), (echo.service,))
    text = (await run(exec_, call, command, background=True, network=echo.service)).for_model
    process = ProcessTool(ToolSettings(), exec_.processes)
    async with asyncio.timeout(30):
        while "heard hello" not in text:
            text += (await process.run({"action": "output", "wait_s": 1}, call)).for_model
    other = await run(exec_, call, f"{CLIENT} 127.0.0.1 {echo.port} 2>&1")
    await exec_.aclose()
    assert "ConnectionRefusedError" in other.for_model
    for name in ("example.org", "127.0.0.1:2375", f"{echo.service} example.org"):
        with pytest.raises(ToolError, match="in the background cannot ask for"):
            await exec_.plan({**args, "network": name}, call)


async def test_real_postgresql_answers(box: Bubblewrap, call: CallContext) -> None:
    if (folder := programs()) is None:
        pytest.skip("PostgreSQL is not installed")
    address = urlsplit(create_database())
    path = f"{address.query.removeprefix('host=')}/.s.PGSQL.5432"
    forwarder = await asyncio.create_subprocess_exec(
        "/usr/bin/python3", "-c", FORWARDER, path, stdout=asyncio.subprocess.PIPE
    )
    assert forwarder.stdout is not None
    port = int(await forwarder.stdout.readline())
    try:
        command = (
            f"{folder}/psql -h localhost -p {port} -U kore -d {address.path[1:]} -Atc"
            " 'create table t(a int); insert into t values (20), (22); select sum(a) from t'"
        )
        result = await run(tool(box), call, command, network=f"localhost:{port}")
    finally:
        forwarder.kill()
        await forwarder.wait()
    assert "42\n[exit code 0]" in result.for_model


FORWARDER = """
import asyncio, sys
async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()
async def serve(reader, writer):
    far = await asyncio.open_unix_connection(sys.argv[1])
    await asyncio.gather(copy(reader, far[1]), copy(far[0], writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def test_invalid_text_is_not_a_service() -> None:
    names = ("example.org", "127.0.0.1:5432", "example.org:1", "127.0.0.1:1")
    hosts, services = split_services(names)
    assert hosts == ("example.org", "example.org:1", "127.0.0.1:1")
    assert services == (LocalService("127.0.0.1", 5432),)
