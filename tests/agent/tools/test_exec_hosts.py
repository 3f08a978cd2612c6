"""Commands in bubblewrap with access to some hosts, and their remaining limits."""

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent.errors import ToolError
from agent.prompts import load_prompt
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.roles import Role, ToolRule
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.container import ContainerSandbox
from agent.security.taint.file_marks import is_marked
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions, ToolRunner
from agent.tools.shell.exec import Exec
from agent.types import ToolCall
from tests.fakes.web import WebSite
from tests.processes import has_ended, lasting_command, runs

ROOT = Path(__file__).parents[3]


# The site is at "localhost", which programs otherwise look for in their own network.
UNSET = "unset no_proxy NO_PROXY"


@pytest.fixture
def box() -> Bubblewrap:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return Bubblewrap("bwrap", frozenset({"--disable-userns"}))


@pytest.fixture
async def site() -> AsyncIterator[WebSite]:
    async with WebSite() as site:
        site.page("/a", "hello")
        yield site


def tool(box: Any, site: WebSite, *hosts: str) -> Exec:
    port = int(site.url.rpartition(":")[2])
    settings = ToolSettings(sandbox=box, exec_hosts=hosts)
    return Exec(settings, {"ports": (port,), "allow": lambda address: True})


async def run_exec(tool: Exec, call: CallContext, command: str) -> str:
    return (await tool.run({"command": f"{UNSET}; {command}"}, call)).for_model


async def test_programs_reach_only_listed_hosts(
    box: Bubblewrap, site: WebSite, call: CallContext
) -> None:
    port = site.url.rpartition(":")[2]
    fetch = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
    direct = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
    text = await run_exec(
        tool(box, site, "localhost"), call,
        f"""curl -sS http://localhost:{port}/a; echo
        curl -sSp http://localhost:{port}/a; echo
        python3 -c "{fetch}" http://localhost:{port}/a
        curl -sS http://127.0.0.1:{port}/b; curl -sSp http://127.0.0.1:{port}/b
        curl -sS --noproxy '*' http://localhost:{port}/b
        curl -sS -H 'Host: elsewhere' http://localhost:{port}/c
        python3 -c "{direct}" {port} 2>&1 | tail -n 1
        getent hosts example.org; ls /etc/resolv.conf; ls /proc/net/unix | wc -l""",
    )  # fmt: skip
    assert text.startswith("hello\nhello\nhello\n")
    assert "127.0.0.1 is not one of the hosts that commands may reach: localhost" in text
    assert "CONNECT tunnel failed, response 403" in text
    assert "refused" in text
    assert f"[not reached: 127.0.0.1:{port}, " in text
    assert [visit.path for visit in site.visits] == ["/a", "/a", "/a", "/c"]
    assert site.visits[-1].headers["Host"] == f"localhost:{port}"


async def test_tls_is_forwarded_unchanged(
    box: Bubblewrap, call: CallContext, workspace: Path, tmp_path: Path
) -> None:
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", tmp_path / "key.pem",
         "-out", workspace / "cert.pem"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(workspace / "cert.pem", tmp_path / "key.pem")

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=f"hello {request.host}")

    server = web.AppRunner(_app(answer))
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", 0, ssl_context=context).start()
    port = server.addresses[0][1]
    settings = ToolSettings(sandbox=box, exec_hosts=("localhost",))
    exec_ = Exec(settings, {"ports": (port,), "allow": lambda address: True})
    text = await run_exec(exec_, call, f"curl -sS --cacert cert.pem https://localhost:{port}/")
    assert text == f"hello localhost:{port}\n[exit code 0]"
    await server.cleanup()


def _app(answer: Any) -> web.Application:
    app = web.Application()
    app.router.add_get("/", answer)
    return app


async def test_each_connection_is_recorded_and_taints_the_output(
    box: Bubblewrap, site: WebSite, call: CallContext, workspace: Path
) -> None:
    entries: list[tuple[bool, dict[str, Any]]] = []

    async def record(allowed: bool, reason: str, what: Any) -> None:
        entries.append((allowed, dict(what)))

    port = site.url.rpartition(":")[2]
    exec_, call = tool(box, site, "localhost"), replace(call, record=record)
    result = await exec_.run({"command": f"curl -sS http://other:{port}/a"}, call)
    assert result.taint == frozenset()
    command = f"{UNSET}; curl -sS http://localhost:{port}/a | tee page"
    result = await exec_.run({"command": command}, call)
    assert result.taint == {"untrusted"}
    assert is_marked(workspace)
    assert is_marked(workspace / "page")
    assert entries == [(False, {"host": f"other:{port}"}), (True, {"host": f"localhost:{port}"})]


async def test_read_only_commands_and_missing_hosts_have_no_network(
    box: Bubblewrap, site: WebSite, call: CallContext
) -> None:
    exec_ = tool(box, site, "localhost")
    assert "localhost" in exec_.description
    assert (await exec_.plan({"command": "curl http://localhost"}, call)).hosts == ("localhost",)
    assert (await exec_.plan({"command": "ls -l"}, call)).hosts == ()
    closed = tool(box, site)
    assert (await closed.plan({"command": "curl http://localhost"}, call)).hosts == ()
    assert "proxy" not in closed.description
    assert "proxy" not in await run_exec(closed, call, "env; true >x")


async def test_role_narrows_the_hosts(box: Bubblewrap, site: WebSite, call: CallContext) -> None:
    port = site.url.rpartition(":")[2]
    command = f"{UNSET}; curl -sS http://localhost:{port}/a; curl -sS http://127.0.0.1:{port}/b"

    async def outcome(rule: ToolRule) -> str:
        policy = RolePolicy(PrincipalContext(Role("r", {"exec": rule}), "auto", is_confined=True))
        exec_ = tool(box, site, "localhost", "127.0.0.1")
        runner = ToolRunner(ToolRegistry([exec_]), Permissions(policy), timeout_s=60)
        context = replace(call, call=ToolCall("c", "exec", {"command": command}, "{}"))
        return (await runner.run(context, _start)).for_model

    assert "hello" in await outcome(ToolRule(hosts=("localhost", "other.org")))
    assert [visit.path for visit in site.visits] == ["/a"]
    assert "Failed to connect" in await outcome(ToolRule(hosts=()))
    await outcome(ToolRule())
    assert [visit.path for visit in site.visits] == ["/a", "/a", "/b"]


async def _start() -> None:
    """Ignore the start of the call."""


async def test_role_with_hosts_rejects_commands_with_full_network(call: CallContext) -> None:
    policy = RolePolicy(PrincipalContext(Role("r", {"exec": ToolRule(hosts=("a.org",))}), "auto"))
    runner = ToolRunner(ToolRegistry([Exec(ToolSettings())]), Permissions(policy), timeout_s=60)
    context = replace(call, call=ToolCall("c", "exec", {"command": "true"}, "{}"))
    assert "may reach only a.org" in (await runner.run(context, _start)).for_model


async def test_container_rejects_exec_hosts(site: WebSite, call: CallContext) -> None:
    with pytest.raises(ToolError, match=r"security\.exec_hosts"):
        await run_exec(tool(ContainerSandbox("docker", "image"), site, "localhost"), call, "curl x")


async def test_no_descriptor_stays_open(box: Bubblewrap, site: WebSite, call: CallContext) -> None:
    exec_, port = tool(box, site, "localhost"), site.url.rpartition(":")[2]
    site.slow("/slow")
    await run_exec(exec_, call, f"curl -sS http://localhost:{port}/a")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        line = f"{UNSET}; curl -sS http://localhost:{port}/slow & curl -sS -m 1 http://localhost:{port}/a"
        await run_exec(exec_, call, line)
    async with asyncio.timeout(30):
        # The site notices this a little later.
        while len(os.listdir("/proc/self/fd")) > before:
            await asyncio.sleep(0.01)


KORE = """
import asyncio, sys
from pathlib import Path
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.shell.exec import Exec
from agent.types import ToolCall
folder, port, lasts = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
here = ToolEnvironment("s", folder, folder / "m")
call = CallContext(ToolCall("c", "exec", {}, "{}"), here, print)
settings = ToolSettings(sandbox=Bubblewrap("bwrap", frozenset()), exec_hosts=("localhost",))
tool = Exec(settings, {"ports": (port,), "allow": lambda address: True})
command = f"unset no_proxy NO_PROXY; setsid curl -s http://localhost:{port}/slow & {lasts}"
asyncio.run(tool.run({"command": command, "timeout_s": 500}, call))
"""


async def test_all_processes_die_when_kore_is_killed(
    box: Bubblewrap, site: WebSite, workspace: Path
) -> None:
    site.slow("/slow")
    port = site.url.rpartition(":")[2]
    command, visit = lasting_command(), f"http://localhost:{port}/slow"
    kore = subprocess.Popen([sys.executable, "-c", KORE, str(workspace), port, command], cwd=ROOT)
    try:
        async with asyncio.timeout(20):
            while not site.visits:
                await asyncio.sleep(0.01)
        assert await runs(command)
        assert await runs(visit)
    finally:
        kore.kill()
        kore.wait()
    assert await has_ended(command)
    assert await has_ended(visit)


async def test_missing_network_is_reported_as_the_cause_of_an_unresolved_host(
    box: Bubblewrap, site: WebSite, call: CallContext
) -> None:
    failing = "getent ahosts example.org; touch a; exit 6"
    assert "run it with network" in await run_exec(tool(box, site), call, failing)
    assert "run it with network" not in await run_exec(tool(box, site), call, "touch a; exit 6")
    text = await run_exec(tool(box, site, "127.0.0.1"), call, failing)
    assert load_prompt("sandbox/past_proxy") in text
    assert "run it with network" not in text


async def test_other_commands_of_the_conversation_have_no_network(
    box: Bubblewrap, site: WebSite, call: CallContext
) -> None:
    """Both commands share a network and can find the proxy's listener in it."""
    port = site.url.rpartition(":")[2]
    exec_ = tool(box, site, "localhost")
    spy = (
        "while :; do for p in $(awk 'NR>1 {print $2}' /proc/net/tcp | cut -d: -f2 | sort -u); do"
        f" curl -sm 1 -x http://127.0.0.1:$((16#$p)) http://localhost:{port}/spied >>spied; done;"
        " sleep 0.01; done"
    )
    await exec_.run({"command": spy, "background": True}, call)
    text = await run_exec(
        exec_, call,
        f"for n in $(seq 20); do curl -sS http://localhost:{port}/a; sleep 0.05; done",
    )  # fmt: skip
    await exec_.aclose()
    assert text.startswith("hello" * 20)
    assert {visit.path for visit in site.visits} == {"/a"}
    spied = (call.workspace / "spied").read_text()
    assert "belongs to another command" in spied
    assert "hello" not in spied
