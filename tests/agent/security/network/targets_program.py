"""Runs a shell line in a sandbox that reaches an MCP server's `network`, as the current user.

    echo '{"name": "bwrap", "network": ["127.0.0.1:5432"], "line": "…", "folder": "/srv/test"}' |
        python targets_program.py

The output is a JSON list: the output of the line, the reached and the refused hosts, or the reason
why the sandbox refuses it.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent.errors import ToolError
from agent.security.network.egress_proxy import EgressProxy
from agent.security.network.proxy_connection import EgressGrant
from agent.security.network.targets import NetworkReach
from agent.security.sandbox.base import SandboxCommand
from agent.tools.shell.process_group import run
from tests.agent.security.sandbox.driver import sandbox


async def main(order: dict[str, Any]) -> list[Any]:
    reach = NetworkReach.parse(order["network"])
    grant = EgressGrant(reach.hosts, services=reach.services, targets=reach.targets)
    folder, output = Path(tempfile.mkdtemp(dir=order["folder"])), bytearray()

    async def record(where: str, allowed: bool, reason: str) -> None:
        """Ignore the call."""

    async with EgressProxy.open(grant, record) as proxy:
        job = SandboxCommand(order["line"], folder, folder, egress=proxy)
        try:
            with sandbox(order["name"], None).prepare(job) as spawn:
                await run(spawn, 60, output.extend)
        except ToolError as exc:
            return [str(exc), [], []]
        session = proxy.session
        refused = sorted(session.reason_by_refused_host)
        return [output.decode(), sorted(session.reached_hosts), refused]


print(json.dumps(asyncio.run(main(json.loads(sys.stdin.read())))))
