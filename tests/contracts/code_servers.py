"""Tools based on language servers, for a single server and project."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.code.lsp.known_servers import KNOWN_SERVERS
from agent.code.lsp.programs import find_server_program
from agent.code.lsp.session import LspSession
from agent.code.services import CodeServices
from agent.code.watch.project_watches import ProjectWatches
from agent.security.sandbox.environment import find_toolchains
from agent.security.sandbox.selector import SandboxOptions, select_sandbox
from agent.security.sandbox.unconfined import NoCommands
from agent.settings import LspServerSettings, LspSettings, ToolSettings
from agent.tools.base import (
    CallContext,
    DescribesEffects,
    EffectPlan,
    StandsForOthers,
    Tool,
    ToolEnvironment,
)
from agent.tools.built_in import RegistryDefaults
from agent.tools.file_views import stamp
from agent.tools.files.edit import EditFile
from agent.tools.files.move import MoveFile
from agent.tools.files.patch import ApplyPatch
from agent.tools.files.read_write import ReadFile, WriteFile
from agent.types import Taint, ToolCall, ToolResult

PROJECTS = Path(__file__).parent / "lsp_projects"


class CodeCalls:
    """Calls of the tools in a project."""

    def __init__(self, services: CodeServices, defaults: RegistryDefaults, folder: Path) -> None:
        self.services = services
        self.folder = folder
        self._views = defaults.views
        self.taint: frozenset[Taint] = frozenset()
        # Folder of all users' files; the caller is not always the owner.
        self.memory, self.is_owner = folder / "M.md", True
        # Hook that runs between the plan of a call and the call.
        self.after_plan: Callable[[], object] = lambda: None
        settings = services.tool_settings
        files: list[Tool] = [
            kind(settings, defaults.views, defaults.drafts)
            for kind in (EditFile, WriteFile, ApplyPatch, MoveFile)
        ]
        files.append(ReadFile(settings, defaults.views))
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in (*services.tools(), *files)}

    async def ask(self, operation: str, path: str = "", **args: Any) -> ToolResult:
        """Call `lsp` as a model does."""
        wish = {"operation": operation, **({"path": path} if path else {}), **args}
        tool, call = self._tools["lsp"], ToolCall("1", "lsp", wish, json.dumps(wish))
        assert isinstance(tool, StandsForOthers)
        return await self._run(tool.stands_for(call))

    async def lines(self, operation: str, path: str = "", **args: Any) -> list[str]:
        return (await self.ask(operation, path, **args)).for_model.splitlines()

    async def run(self, tool: str, **args: Any) -> ToolResult:
        """Call a tool that writes."""
        return await self._run(ToolCall("1", tool, args, json.dumps(args)))

    async def plan(self, tool: str, **args: Any) -> EffectPlan:
        """Return the effects that a tool announces for a call."""
        planner = self._tools[tool]
        assert isinstance(planner, DescribesEffects)
        return await planner.plan(args, self._context(ToolCall("1", tool, args, json.dumps(args))))

    def parameters(self, tool: str) -> Mapping[str, Any]:
        """Return the arguments that a tool takes."""
        properties: Mapping[str, Any] = self._tools[tool].parameters["properties"]
        return properties

    def see(self, path: str) -> None:
        """Mark the file as read by the model."""
        self._views.record_view("s", self.folder / path, stamp(self.folder / path))

    def _context(self, call: ToolCall) -> CallContext:
        environment = ToolEnvironment("s", self.folder, self.memory, owner=self.is_owner)
        return CallContext(call, environment, lambda text, stream: None, taint=self.taint)

    async def _run(self, call: ToolCall) -> ToolResult:
        context = self._context(call)
        tool = self._tools[call.name]
        if isinstance(tool, DescribesEffects):
            await tool.plan(call.arguments or {}, context)
        self.after_plan()
        return await tool.run(call.arguments or {}, context)

    @property
    def session(self) -> LspSession:
        """Session of the only running server."""
        (server,) = self.services.servers.running
        assert server.running is not None
        return server.running


def known_server(name: str) -> LspServerSettings:
    """Return the settings of a server that Kore knows; skip the test if it is not installed."""
    (server,) = (item for item in KNOWN_SERVERS if item.name == name)
    if find_server_program(server, ()) is None:
        pytest.skip(f"language server {name} is not installed")
    return server


def copy_project(name: str, folder: Path) -> Path:
    """Copy a project for one test."""
    return Path(shutil.copytree(PROJECTS / name, folder / name))


@asynccontextmanager
async def code_calls(folder: Path, settings: LspSettings) -> AsyncIterator[CodeCalls]:
    """Yield calls in a project, in the sandbox of this machine; all servers end with the block."""
    home = folder.parent / f"home-of-{folder.name}"
    home.mkdir(exist_ok=True)
    options = SandboxOptions(toolchains=find_toolchains(Path.home()))
    sandbox = select_sandbox(options, home).sandbox
    if isinstance(sandbox, NoCommands):
        pytest.skip(sandbox.reason)
    tools = ToolSettings(sandbox=sandbox, restrict_to_workspace=True)
    defaults = RegistryDefaults()
    watches = ProjectWatches()
    services = CodeServices(settings, tools, defaults, (folder,), lambda: watches)
    try:
        with watches.follow(folder) as subscription:
            # Wait until changes are detected.
            await subscription.wait_begun()
            yield CodeCalls(services, defaults, folder)
    finally:
        await services.aclose()
        watches.close()


def only(name: str, **changes: Any) -> LspSettings:
    """Return settings with one server that Kore knows; skip the test if it is not installed."""
    server = known_server(name)
    without = frozenset(item.name for item in KNOWN_SERVERS if item.name != server.name)
    return LspSettings(without=without, **changes)


def stand_in(*behaviours: str, **changes: Any) -> LspSettings:
    """Return settings with the fake (tests/fakes/lsp_server.py) as the only server, for .txt."""
    script = str(PROJECTS.parents[1] / "fakes" / "lsp_server.py")
    command = (sys.executable, script, *behaviours)
    without = frozenset(item.name for item in KNOWN_SERVERS)
    server = LspServerSettings("stand-in", command, (".txt",))
    return LspSettings(servers=(server,), without=without, **changes)


async def all_ended(folder: Path) -> None:
    """Wait until no process works in a folder any more."""
    async with asyncio.timeout(10):
        while processes_in(folder):
            await asyncio.sleep(0.05)


def processes_in(folder: Path) -> list[str]:
    """Return the command lines of processes that work in a folder or below it."""
    lines = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            where = os.readlink(process / "cwd")
            command = (
                (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue
        if Path(where).is_relative_to(folder) and int(process.name) != os.getpid():
            lines.append(f"{process.name} {command}")
    return lines
