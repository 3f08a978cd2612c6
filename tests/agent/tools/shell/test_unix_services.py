"""Unix sockets of this machine that commands in bubblewrap may reach, and all others."""

import asyncio
import os
import shlex
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from agent.errors import ToolError
from agent.security.local_services import LocalService, OwnServices
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.landlock.sandbox import Landlock
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions, ToolRunner
from agent.tools.shell.exec import Exec
from agent.types import ToolCall, ToolResult
from tests.fakes.echo_server import another_process
from tests.postgres_server import create_database, programs

TALK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(10)
    s.connect(sys.argv[1])
    s.sendall(b"hello")
    s.shutdown(socket.SHUT_WR)
    print(s.makefile("rb").read().decode())
"""
CLIENT = f"/usr/bin/python3 -c {shlex.quote(TALK)}"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder with a short path outside of the workspace and of /tmp."""
    path = Path(tempfile.mkdtemp(prefix="kore-sockets-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def service(folder: Path) -> AsyncIterator[Path]:
    async with another_process(str(folder / "echo.sock")):
        yield folder / "echo.sock"


def tool(box: Any, *services: Path, **settings: Any) -> Exec:
    names = tuple(f"unix:{path}" for path in services)
    return Exec(ToolSettings(sandbox=box, exec_local=names, **settings))


async def run(tool: Exec, call: CallContext, command: str, **arguments: Any) -> ToolResult:
    args = {"command": command, **arguments}
    return await tool.run(args, replace(call, plan=await tool.plan(args, call)))


def program(text: str) -> str:
    return f"/usr/bin/python3 -c {shlex.quote(text)}"


async def test_granted_socket_answers(box: Bubblewrap, call: CallContext, service: Path) -> None:
    result = await run(tool(box), call, f"{CLIENT} {service}", network=f"unix:{service}")
    assert result.for_model == "heard hello\n[exit code 0]"
    assert result.taint == {"untrusted"}


async def test_path_through_a_link_means_its_target(
    box: Bubblewrap, call: CallContext, service: Path, folder: Path
) -> None:
    (folder / "link").symlink_to(folder)
    named = folder / "link" / service.name
    plan = await tool(box).plan({"command": "ls", "network": f"unix:{named}"}, call)
    assert plan.network == (f"unix:{service}",)
    result = await run(tool(box, service), call, f"{CLIENT} {named}")
    assert "heard hello" in result.for_model


async def test_other_sockets_stay_closed(
    box: Bubblewrap, call: CallContext, service: Path, folder: Path, workspace: Path
) -> None:
    """One lies in the workspace, where the command sees it."""
    inner = folder / "x" / "other.sock"
    inner.parent.mkdir()
    async with another_process(str(inner)) as other:
        os.link(inner, workspace / "o.sock") if _same_disk(inner, workspace) else None
        targets = [inner, "o.sock", workspace / "o.sock"]
        command = "; ".join(f"{CLIENT} {target} 2>&1 | tail -1" for target in targets)
        text = (await run(tool(box, service), call, command)).for_model
    assert "heard" not in text
    assert text.count("not permitted") >= 2
    assert other.visits == 0


def _same_disk(path: Path, folder: Path) -> bool:
    return path.stat().st_dev == folder.stat().st_dev


@pytest.mark.parametrize("kind", ["SOCK_DGRAM", "SOCK_RAW"])
async def test_other_kinds_of_unix_sockets_cannot_be_opened(
    kind: str, box: Bubblewrap, call: CallContext, service: Path
) -> None:
    text = f"import socket; socket.socket(socket.AF_UNIX, socket.{kind}); print('opened')"
    result = await run(tool(box, service), call, f"{program(text)}; true")
    assert "opened" not in result.for_model


async def test_unix_socket_is_never_bound(
    box: Bubblewrap, call: CallContext, service: Path, workspace: Path
) -> None:
    text = "import socket; socket.socket(socket.AF_UNIX).bind('own.sock')"
    result = await run(tool(box, service), call, program(text))
    assert "PermissionError" in result.for_model
    assert not (workspace / "own.sock").exists()


@pytest.mark.parametrize(
    "call_of_socket",
    ["socket().bind(('127.0.0.1', 80))", "socket(AF_INET6).bind(('::1', 1023))",
     "socket(AF_NETLINK, SOCK_RAW, 0).bind((0, 1))",
     "socket(AF_NETLINK, SOCK_RAW, 0).connect((0, 1))"],
)  # fmt: skip
async def test_command_gains_no_capability_of_kore(
    call_of_socket: str, box: Bubblewrap, call: CallContext, service: Path
) -> None:
    result = await run(
        tool(box, service), call, program(f"from socket import *; {call_of_socket}; print('done')")
    )
    assert "PermissionError" in result.for_model
    assert "done" not in result.for_model


async def test_ordinary_addresses_can_be_bound(
    box: Bubblewrap, call: CallContext, service: Path
) -> None:
    text = (
        "from socket import *; socket().bind(('127.0.0.1', 8080)); socket().bind(('', 0));"
        " socket(AF_NETLINK, SOCK_RAW, 0).bind((0, 0)); print('done')"
    )
    assert "done" in (await run(tool(box, service), call, program(text))).for_model


async def test_abstract_socket_stays_closed(
    box: Bubblewrap, call: CallContext, service: Path
) -> None:
    text = "import socket; socket.socket(socket.AF_UNIX).connect('\\0kore-test')"
    assert "PermissionError" in (await run(tool(box, service), call, program(text))).for_model


# A thread replaces the socket that was checked with another one under the same number.
SWAP = """
import os, socket, sys, threading
def swap():
    while True:
        own = socket.socket(socket.AF_UNIX)
        os.dup2(own.fileno(), 50)
        own.close()
threading.Thread(target=swap, daemon=True).start()
for _ in range(300):
    other = socket.socket(socket.AF_INET)
    os.dup2(other.fileno(), 50)
    other.close()
    try:
        with socket.socket(fileno=os.dup(50)) as s:
            s.connect(sys.argv[1])
            print("connected", s.family, s.getpeername())
    except (OSError, TypeError):
        pass
os._exit(0)
"""


async def test_replaced_socket_gains_nothing(
    box: Bubblewrap, call: CallContext, service: Path, folder: Path
) -> None:
    async with another_process(str(folder / "other.sock")) as other:
        command = f"{program(SWAP)} {folder / 'other.sock'}"
        result = await run(tool(box, service), call, command)
    assert "connected" not in result.for_model
    assert other.visits == 0


async def test_own_network_works_as_before(
    box: Bubblewrap, call: CallContext, service: Path
) -> None:
    text = (
        "import asyncio\n"
        "async def serve(r, w):\n"
        "    w.write(b'heard ' + await r.read()); w.close()\n"
        "async def main():\n"
        "    server = await asyncio.start_server(serve, '127.0.0.1', 0)\n"
        "    at = server.sockets[0].getsockname()\n"
        "    for _ in range(20):\n"
        "        r, w = await asyncio.open_connection(*at)\n"
        "        w.write(b'hello'); w.write_eof()\n"
        "        assert await r.read() == b'heard hello'\n"
        "    try:\n"
        "        await asyncio.open_connection('127.0.0.1', 9)\n"
        "    except ConnectionRefusedError:\n"
        "        print('fine')\n"
        "asyncio.run(main())"
    )
    assert "fine\n[exit code 0]" in (await run(tool(box, service), call, program(text))).for_model


async def test_socket_that_a_link_replaced_is_not_reached(
    box: Bubblewrap, call: CallContext, service: Path, folder: Path
) -> None:
    """The link leads to another service, but the grant is for the path without links."""
    async with another_process(str(folder / "other.sock")) as other:
        exec_ = tool(box, service)
        service.unlink()
        service.symlink_to(folder / "other.sock")
        result = await run(exec_, call, f"{CLIENT} {service} 2>&1 | tail -1")
    assert "heard" not in result.for_model
    assert other.visits == 0


async def test_link_that_changes_after_the_plan_leads_nowhere_else(
    box: Bubblewrap, call: CallContext, service: Path, folder: Path
) -> None:
    """The command reaches only the socket that was judged and shown."""
    link = folder / "link.sock"
    async with another_process(str(folder / "other.sock")) as other:
        link.symlink_to(service)
        exec_, args = tool(box), {"command": f"{CLIENT} {folder / 'other.sock'}"}
        args["network"] = f"unix:{link}"
        plan = await exec_.plan(args, call)
        link.unlink()
        link.symlink_to(folder / "other.sock")
        bound = await exec_.bind(plan, args, call)
        result = await exec_.run(args, replace(call, plan=plan))
    assert plan.network == (f"unix:{service}",)
    assert bound.network == plan.network
    assert "heard" not in result.for_model
    assert other.visits == 0


async def test_socket_that_replaced_the_allowed_one_is_not_reached(
    box: Bubblewrap, call: CallContext, service: Path, folder: Path
) -> None:
    async with another_process(str(folder / "other.sock")) as other:
        exec_, args = tool(box), {"command": f"{CLIENT} {service}", "network": f"unix:{service}"}
        plan = await exec_.plan(args, call)
        (folder / "other.sock").rename(service)
        result = await exec_.run(args, replace(call, plan=plan))
    assert "heard" not in result.for_model
    assert "was replaced after it was allowed" in result.for_model
    assert other.visits == 0


async def test_unplanned_command_reaches_no_socket_that_it_names(
    box: Bubblewrap, call: CallContext, service: Path
) -> None:
    args = {"command": f"{CLIENT} {service}", "network": f"unix:{service}"}
    assert "heard" not in (await tool(box).run(args, call)).for_model


@pytest.mark.parametrize("way", ["svc.sock", "folder/echo.sock", "outside"])
async def test_link_that_commands_can_change_is_refused(
    way: str, box: Bubblewrap, call: CallContext, service: Path, folder: Path
) -> None:
    """A link outside leads to one in the workspace, too."""
    workspace = call.workspace
    (workspace / "svc.sock").symlink_to(service)
    (workspace / "folder").symlink_to(folder)
    (folder / "outside").symlink_to(workspace / "svc.sock")
    named = folder / "outside" if way == "outside" else workspace / way
    with pytest.raises(ToolError, match=r"symbolic link .* which commands may change"):
        await tool(box).plan({"command": "ls", "network": f"unix:{named}"}, call)


async def test_missing_socket_in_the_workspace_cannot_be_asked_for(
    box: Bubblewrap, call: CallContext
) -> None:
    named = call.workspace / "later.sock"
    with pytest.raises(ToolError, match="is not a socket"):
        await tool(box).plan({"command": "ls", "network": f"unix:{named}"}, call)


async def test_link_to_an_unprintable_path_is_refused(
    box: Bubblewrap, call: CallContext, folder: Path
) -> None:
    (folder / "link").symlink_to(folder / "a 127.0.0.1:5432")
    with pytest.raises(ToolError, match="contains a space"):
        await tool(box).plan({"command": "ls", "network": f"unix:{folder / 'link'}"}, call)


async def test_link_that_changes_before_an_unasked_call_runs_leads_nowhere_else(
    box: Bubblewrap, call: CallContext, service: Path, folder: Path
) -> None:
    """There is nobody to ask, and the link leads to the granted socket while the call is judged."""
    link, target = folder / "link.sock", folder / "other.sock"
    script = TALK.replace("sys.argv[1]", repr(str(target)))
    (call.workspace / "client.py").write_text(script)
    async with another_process(str(target)) as other:
        exec_ = tool(box, service)
        link.symlink_to(service)
        role = PrincipalContext(built_in_roles()["build"], "accept-edits", is_confined=True)
        runner = ToolRunner(ToolRegistry([exec_]), Permissions(RolePolicy(role)), timeout_s=60)
        args = {"command": "python3 client.py", "network": f"unix:{link}"}
        context = replace(call, call=ToolCall("c", "exec", args, "{}"))

        async def swap() -> None:
            link.unlink()
            link.symlink_to(target)

        result = await runner.run(context, swap)
    assert "Operation not permitted" in result.for_model
    assert other.visits == 0


async def test_working_folder_that_changed_after_the_plan_is_refused(
    box: Bubblewrap, call: CallContext
) -> None:
    (call.workspace / "a").mkdir()
    (call.workspace / "b").mkdir()
    link = call.workspace / "link"
    link.symlink_to("a")
    args = {"command": "pwd", "workdir": "link", "outside": True, "reason": "it needs docker"}
    plan = await tool(box).plan(args, call)
    link.unlink()
    link.symlink_to("b")
    with pytest.raises(ToolError, match="now leads to another folder"):
        await tool(box).bind(plan, args, call)
    with pytest.raises(ToolError, match="now leads to another folder"):
        await tool(box).run(args, replace(call, plan=plan))


async def test_file_in_the_place_of_the_socket_is_refused(
    box: Bubblewrap, call: CallContext, folder: Path
) -> None:
    (folder / "file").touch()
    result = await run(tool(box, folder / "file"), call, f"{CLIENT} {folder / 'file'} 2>&1")
    assert "ConnectionRefusedError" in result.for_model


async def test_socket_of_kore_is_refused(
    box: Bubblewrap, call: CallContext, folder: Path, service: Path
) -> None:
    own = OwnServices(paths=(folder,))
    with pytest.raises(ToolError, match="belongs to Kore itself"):
        await tool(box, own_services=own).plan(
            {"command": "ls", "network": f"unix:{service}"}, call
        )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "own.sock"))
        listener.listen()
        result = await run(tool(box, folder / "own.sock"), call, f"{CLIENT} {folder / 'own.sock'}")
    assert "heard" not in result.for_model
    assert "belongs to Kore itself" in result.for_model


async def test_refused_socket_is_named_with_the_way_to_it(
    box: Bubblewrap, call: CallContext, service: Path
) -> None:
    result = await run(tool(box), call, f"{CLIENT} {service} 2>&1 | tail -1; exit 1")
    assert f'network: "unix:{service}"' in result.for_model


@pytest.mark.parametrize(
    "name",
    ["unix:", "unix:x", "unix:~/x", "unix:/a/../b", "unix:/a//b", "unix:/" + "x" * 120,
     "unix:/a\u202eb", "unix:@abstract"],
)  # fmt: skip
def test_only_a_full_path_names_a_socket(name: str) -> None:
    with pytest.raises(ValueError, match="Unix socket"):
        LocalService.parse(name)


@pytest.mark.parametrize(
    ("path", "is_engine"),
    [("/run/docker.sock", True), ("/run/user/1000/podman/podman.sock", True),
     ("/run/containerd/containerd.sock", True), ("/var/lib/incus/unix.socket", True),
     ("/run/postgresql/.s.PGSQL.5432", False), ("/run/redis/redis.sock", False)],
)  # fmt: skip
def test_socket_that_leads_to_root_is_known(path: str, is_engine: bool) -> None:
    assert LocalService.parse(f"unix:{path}").is_engine == is_engine


def test_landlock_refuses_unix_sockets(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("Landlock does not run as root")
    from agent.security.sandbox.base import SandboxCommand

    class Way:
        has_hosts = False
        targets = ()
        host_addresses: ClassVar[dict[str, str]] = {}
        services = (LocalService.parse("unix:/run/x.sock"),)

    job = SandboxCommand("true", tmp_path, tmp_path, egress=Way())  # type: ignore[arg-type]
    with pytest.raises(ToolError, match="Unix sockets"), Landlock(6).prepare(job):
        raise AssertionError


async def test_real_postgresql_answers(box: Bubblewrap, call: CallContext) -> None:
    if (tools := programs()) is None:
        pytest.skip("PostgreSQL is not installed")
    address = urlsplit(create_database())
    folder = address.query.removeprefix("host=")
    command = (
        f"{tools}/psql -h {folder} -U kore -d {address.path[1:]} -Atc"
        " 'create table t(a int); insert into t values (20), (22); select sum(a) from t'"
    )
    result = await run(tool(box), call, command, network=f"unix:{folder}/.s.PGSQL.5432")
    assert "42\n[exit code 0]" in result.for_model


@pytest.mark.parametrize("is_disposable", [False, True])
async def test_client_of_a_listed_database_asks_unless_its_data_may_be_lost(
    is_disposable: bool, box: Bubblewrap, call: CallContext
) -> None:
    """Programs that are not clients, such as tests, run without a question in both cases."""
    if (tools := programs()) is None:
        pytest.skip("PostgreSQL is not installed")
    address = urlsplit(create_database())
    folder = Path(address.query.removeprefix("host="))
    database = f"-h {folder} -U kore -d {address.path[1:]}"
    socket_path = folder / ".s.PGSQL.5432"
    disposable = (f"unix:{socket_path}",) if is_disposable else ()
    exec_ = tool(box, socket_path, exec_disposable=disposable)
    context = PrincipalContext(built_in_roles()["build"], "accept-edits", is_confined=True)
    policy = RolePolicy(context)

    async def decide(command: str) -> tuple[str, str]:
        plan = await exec_.plan({"command": command}, call)
        request = plan.request(exec_, {"command": command}, call.workspace)
        decision = policy.decide(request)
        return decision.verdict, decision.reason

    verdict, reason = await decide(f"psql {database} -c 'DROP TABLE t'")
    if is_disposable:
        assert verdict == "allow"
    else:
        assert verdict == "ask"
        assert f"change data of unix:{socket_path}, which undo does not restore" in reason
    assert (await decide("python3 -m pytest -q"))[0] == "allow"
    created = await run(exec_, call, f"{tools}/psql {database} -c 'create table t(a int)'")
    assert "CREATE TABLE" in created.for_model


async def test_programs_that_look_for_the_socket_find_it(
    box: Bubblewrap, call: CallContext
) -> None:
    """Neither service needs to exist."""
    paths = (Path("/run/kore-test/db/x.sock"), Path("/run/kore-test.sock"))
    command = " && ".join(f"test -S {path} && test -S /var{path}" for path in paths)
    result = await run(tool(box, *paths), call, f"{command} && ls -A /run")
    assert result.for_model == "kore-test\nkore-test.sock\n[exit code 0]"


async def test_no_descriptor_stays_open(box: Bubblewrap, call: CallContext, service: Path) -> None:
    exec_ = tool(box, service)
    await run(exec_, call, f"{CLIENT} {service}")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await run(exec_, call, f"{CLIENT} {service}")
    async with asyncio.timeout(30):
        while len(os.listdir("/proc/self/fd")) > before:
            await asyncio.sleep(0.01)
