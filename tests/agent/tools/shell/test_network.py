"""Network access of commands: reachable hosts and approval requests."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.policy.base import PermissionMode, ToolRequest
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan
from agent.tools.shell.exec import Exec
from agent.tools.shell.sandboxed_command import CommandLine, SandboxedCommands
from tests.fakes.web import WebSite

HOST = "site.test"


def tool(box: Bubblewrap, *hosts: str) -> Exec:
    return Exec(replace(ToolSettings(), sandbox=box, exec_hosts=hosts))


async def plan(tool: Exec, call: CallContext, network: str, command: str = "ls") -> EffectPlan:
    return await tool.plan({"command": command, "network": network}, call)


async def test_granted_host_is_reachable_only_for_this_command(
    box: Bubblewrap, call: CallContext
) -> None:
    async with WebSite() as site:
        site.page("/a", "hello")
        port = int(site.url.rpartition(":")[2])
        reach = {"ports": (port,), "allow": lambda address: True}
        commands = SandboxedCommands(replace(ToolSettings(), sandbox=box), reach)
        fetch = f"unset no_proxy NO_PROXY; curl -sS http://localhost:{port}/a"
        results: list[bytes] = []
        line = CommandLine(fetch, call.workspace, call, network=("localhost",))
        assert (await commands.run(line, 30, results.append)).has_reached_host
        assert b"".join(results) == b"hello"
        results.clear()
        refused = await commands.run(replace(line, network=("site.test",)), 30, results.append)
        assert b"localhost is not one of the hosts" in b"".join(results)
        assert refused.refusals
        results.clear()
        assert not (
            await commands.run(replace(line, network=()), 30, results.append)
        ).has_reached_host
        assert [visit.path for visit in site.visits] == ["/a"]


async def test_plan_names_only_new_hosts(box: Bubblewrap, call: CallContext) -> None:
    exec_ = tool(box, "*.known.test")
    effect_plan = await plan(exec_, call, "A.known.test, SITE.test  site.test")
    assert effect_plan.network == (HOST,)
    assert effect_plan.hosts == ("*.known.test", "a.known.test", HOST)
    assert not effect_plan.read_only
    assert (await plan(exec_, call, "a.known.test")).network == ()
    assert (await tool(box).plan({"command": "ls"}, call)).network == ()
    # Without a sandbox a command can reach every host anyway.
    assert (await plan(Exec(ToolSettings()), call, HOST)).network == ()


@pytest.mark.parametrize(
    "network",
    ["localhost", "127.0.0.1", "::1", "0.0.0.0", "x.localhost", "127.1", "0x7f.1",
     "a b c d e f g h i", "*", "http://site.test", "site.test:22", "-x", "a/b",
     "site.test;id", "$(id)", "*.0.0.1",
     "*.com", "*.site.test"],
)  # fmt: skip
async def test_invalid_host_name_is_rejected(
    network: str, box: Bubblewrap, call: CallContext
) -> None:
    with pytest.raises(ToolError):
        await plan(tool(box), call, network)


async def test_network_needs_the_owner_and_a_role_without_other_hosts(
    box: Bubblewrap, call: CallContext
) -> None:
    guest = replace(call, environment=replace(call.environment, owner=False))
    with pytest.raises(ToolError, match="owner"):
        await plan(tool(box), guest, HOST)
    limited = replace(call, hosts=("other.test",))
    with pytest.raises(ToolError, match="role"):
        await plan(tool(box), limited, HOST)
    with pytest.raises(ToolError, match="background"):
        await tool(box).plan({"command": "ls", "network": HOST, "background": True}, call)


@pytest.mark.parametrize(
    ("mode", "command", "rules"),
    [
        ("auto", "ls", ("ask", "ask-network")),
        ("accept-edits", "ls", ("ask", "ask-network")),
        ("ask", "curl x", ("ask", "ask-network")),
        ("plan", "ls", ("deny", "plan-command")),
        ("auto", "sudo x", ("deny", "blocked-command")),
    ],
)
async def test_network_needs_approval_in_every_mode(
    mode: PermissionMode,
    command: str,
    rules: tuple[str, str],
    box: Bubblewrap,
    call: CallContext,
    tmp_path: Path,
) -> None:
    effect_plan = await plan(tool(box), call, HOST, command)
    request = ToolRequest(
        "exec",
        "unsafe",
        {"command": command},
        call.workspace,
        command=command,
        folder=call.workspace,
        hosts=effect_plan.hosts,
        network=effect_plan.network,
    )
    context = PrincipalContext(built_in_roles()["build"], mode, is_confined=True)
    decision = RolePolicy(context).decide(request)
    assert (decision.verdict, decision.rule) == rules
