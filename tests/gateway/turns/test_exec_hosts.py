"""Hosts reachable by commands: the setting, the roles of all speakers, and the audit log."""

import json
import shutil
from pathlib import Path
from typing import cast

import pytest

from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.roles import Role, ToolRule
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions, ToolRunner
from agent.tools.shell.exec import Exec
from agent.types import ToolCall
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.control import AccessControl
from gateway.access.roles import PolicySettings, RoleRegistry
from gateway.core.messages import Sender
from gateway.ops.audit.log import AuditLog
from gateway.turns.permissions import CombinedPolicy, TurnPermissions
from tests.fakes.web import WebSite
from tests.gateway.parts import chat_message, console_message
from tests.gateway.turns.nobody import Nobody

ROLES = """
roles:
  build: {tools: {"*": {}}}
  some: {tools: {exec: {hosts: ["*.a.org", b.org]}}}
  few: {tools: {exec: {hosts: [x.a.org, c.org]}}}
  none: {tools: {read_file: {}}}
"""


@pytest.mark.parametrize(
    ("roles", "hosts"),
    [
        ([], None),
        (["some"], ("*.a.org", "b.org")),
        (["some", "few"], ("x.a.org",)),
        (["some", "none"], ()),
        (["none"], ()),
    ],
)
def test_hosts_are_limited_by_every_speaker(
    roles: list[str], hosts: tuple[str, ...] | None, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(ROLES)
    named = {f"chat:{n}": role for n, role in enumerate(roles)}
    access = AccessControl("chat:7", {("chat", "bot"): ("*",)}, named)
    policies = RoleRegistry(PolicySettings(file=file))
    rules = TurnPermissions(
        access, cast(ApprovalCoordinator, Nobody()), tmp_path, policies, confined=True
    )
    messages = [
        console_message("x"),
        *(chat_message("x", sender=Sender(str(n))) for n in range(len(roles))),
    ]
    assert CombinedPolicy(rules, tuple(messages), None).hosts("exec") == hosts


async def test_connections_are_in_the_audit_log_with_their_hosts(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    audit = AuditLog(tmp_path / "audit")
    await audit.open()
    async with WebSite() as site:
        port = int(site.url.rpartition(":")[2])
        settings = ToolSettings(
            sandbox=Bubblewrap("bwrap", frozenset()), exec_hosts=("localhost", "other.org")
        )
        tool = Exec(settings, {"ports": (port,), "allow": lambda address: True})
        role = Role("few", {"exec": ToolRule(hosts=("localhost",))})
        policy = RolePolicy(PrincipalContext(role, "auto", is_confined=True))
        runner = ToolRunner(ToolRegistry([tool]), Permissions(policy, audit=audit), timeout_s=60)
        line = f"curl -s http://other.org:{port}/; curl -s http://localhost:{port}/"
        call = ToolCall("c", "exec", {"command": line}, "{}")
        memory = workspace / "MEMORY.md"

        async def start() -> None:
            """Do nothing when the call starts."""

        await runner.run(
            CallContext(call, ToolEnvironment("s", workspace, memory), lambda *_: None), start
        )
    await audit.close()
    lines = (tmp_path / "audit" / "audit.jsonl").read_text().splitlines()
    results = [
        (entry["tool"], entry["allowed"], entry["params"]) for entry in map(json.loads, lines)
    ]
    assert results == [
        ("exec", True, {"command": line}),
        ("exec", False, {"host": f"other.org:{port}"}),
        ("exec", True, {"host": f"localhost:{port}"}),
    ]
