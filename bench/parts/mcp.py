"""Benchmark of MCP servers: unused servers, one call, and the tokens of many tools.

The servers are processes that run the fake server of the tests.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.types import ToolCall
from bench.figure import Figure, sampled
from bench.process import ROOT, environ, wall_ms
from bench.stage import Stage, open_stage

RUNS = 21
SERVERS = 10
CALLS = 300
_SERVER = str(ROOT / "tests" / "fakes" / "mcp_server.py")


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a process: its duration and its peak memory."""

    ms: float
    resident_mb: float


async def measure(command: Sequence[str]) -> list[Figure]:
    return [*await _unused(command), await _calls(), await _tokens(command)]


async def _unused(command: Sequence[str]) -> list[Figure]:
    """Run `kore agent -m hi` alternately with servers whose tools are known and without servers."""
    costs_by_count: dict[int, list[Cost]] = {0: [], SERVERS: []}
    async with open_stage(command) as none, open_stage(command) as ten:
        _configure(ten, {f"s{n}": [] for n in range(SERVERS)})
        stages = {0: none, SERVERS: ten}
        for n in range(RUNS + 2):
            for count, stage in stages.items():
                cost = _cost([*command, "agent", "-m", "hi"], stage)
                # The first runs create the workspace and list the servers' tools.
                if n > 1:
                    costs_by_count[count].append(cost)
        requests = await ten.model.get("requests", since=0)
    names = [tool["function"]["name"] for tool in json.loads(requests[-1]["raw"])["tools"]]
    assert "mcp__s9__echo" in names, names
    ms, mb = (
        statistics.median(getattr(cost, name) for cost in costs_by_count[SERVERS])
        - statistics.median(getattr(cost, name) for cost in costs_by_count[0])
        for name in ("ms", "resident_mb")
    )
    bare = statistics.median(cost.ms for cost in costs_by_count[0])
    bare_mb = statistics.median(cost.resident_mb for cost in costs_by_count[0])
    note = f"compared with a run of {bare:.0f} ms and {bare_mb:.0f} MB without servers"
    return [
        Figure(f"{SERVERS} MCP servers, none used", "ms", ms, goal=5, note=note),
        Figure("the same, resident", "MB", mb, goal=2),
    ]


def _cost(words: Sequence[str], stage: Stage) -> Cost:
    began = time.perf_counter()
    process = subprocess.Popen(
        words,
        env=environ(stage.home),
        cwd=stage.home.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    ended = time.perf_counter()
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return Cost((ended - began) * 1000, usage.ru_maxrss / 1024)


def _configure(stage: Stage, servers: dict[str, list[str]]) -> None:
    """Configure fake servers with these names and command-line arguments."""
    path = stage.home / "config.json"
    config = json.loads(path.read_text())
    config["mcp_servers"] = {
        name: {"command": sys.executable, "args": ["-B", _SERVER, *behaviours]}
        for name, behaviours in servers.items()
    }
    path.write_text(json.dumps(config))


async def _calls() -> Figure:
    """Measure calls, alternately through Kore's tool and through the SDK alone."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    server = McpServerSettings("s", sys.executable, ("-B", _SERVER))
    parameters = StdioServerParameters(command=sys.executable, args=["-B", _SERVER])
    with tempfile.TemporaryDirectory(prefix="kore-bench-") as name:
        folder = Path(name)
        servers = McpServers(McpSettings((server,), folder / "mcp"), ToolSettings())
        async with Client(parameters, mode="legacy", cache=None) as client:
            try:
                await servers.load()
                tool = next(
                    mcp_tool
                    for mcp_tool in servers.mcp_tools()
                    if mcp_tool.definition.name == "echo"
                )
                arguments = {"text": "x" * 200}
                call = ToolCall("1", tool.name, arguments, json.dumps(arguments))
                environment = ToolEnvironment("s", folder, folder / "MEMORY.md", owner=True)
                context = CallContext(call, environment, lambda text, stream: None)
                bare, own = [], []
                for n in range(CALLS + 10):
                    bare_ms = await _timed(lambda: client.call_tool("echo", arguments))
                    own_ms = await _timed(lambda: tool.run(arguments, context))
                    if n >= 10:
                        bare.append(bare_ms)
                        own.append(own_ms)
            finally:
                await servers.aclose()
    least = statistics.median(bare)
    return sampled("a call of an MCP tool", "ms", own, bare=least, goal=least + 5)


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


async def _tokens(command: Sequence[str]) -> Figure:
    """Measure the tokens that 200 MCP tools add to the first request."""
    sizes = []
    for servers in ({}, {"big": ["many"]}):
        async with open_stage(command) as stage:
            _configure(stage, servers)
            once = [*command, "agent", "-m", "hi"]
            wall_ms(once, environ(stage.home), stage.home.parent)
            requests = await stage.model.get("requests", since=0)
            sizes.append(len(requests[0]["raw"]) / 4)
    names = [tool["function"]["name"] for tool in json.loads(requests[0]["raw"])["tools"]]
    assert "tool_search" in names, names
    more = sizes[1] - sizes[0]
    return Figure("200 MCP tools in the first request", "tokens", more, goal=1_500)
