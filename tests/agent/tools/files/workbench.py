"""The built-in tools of an agent whose commands run in a sandbox."""

from dataclasses import replace
from pathlib import Path

from agent.security.policy.engine import DefaultPolicy
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.landlock.sandbox import Landlock
from agent.settings import ToolSettings
from agent.tools.base import CallContext, Tool
from agent.tools.built_in import RegistryDefaults, default_tools
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions, ToolRunner
from agent.tools.shell.session_space import SessionSpaces
from agent.types import ToolCall, ToolResult


class Workbench:
    """The built-in tools of one agent, with calls of the owner in a sandbox."""

    def __init__(self, box: Bubblewrap | Landlock, call: CallContext, kore: Path) -> None:
        settings = ToolSettings(sandbox=box, temporary_folder=kore / "tmp", off_limits=(kore,))
        self.defaults = RegistryDefaults()
        self.tools = {tool.name: tool for tool in default_tools(settings, None, self.defaults)}
        self.registry = ToolRegistry(list(self.tools.values()))
        self.call = replace(call, shared_files=self.registry.shared_files(call))

    def tool(self, name: str) -> Tool:
        return self.tools[name]

    @property
    def spaces(self) -> SessionSpaces:
        assert self.defaults.processes is not None
        return self.defaults.processes.spaces

    async def run(self, name: str, **args: object) -> str:
        return (await self.tools[name].run(args, self.call)).for_model

    async def run_allowed(self, name: str, **args: object) -> ToolResult:
        """Run a call as a turn does, with the policy and nobody to ask."""
        runner = ToolRunner(self.registry, Permissions(DefaultPolicy("ask")), timeout_s=60)

        async def on_start() -> None:
            pass

        call = replace(self.call, call=ToolCall("c1", name, args, "{}"), shared_files=None)
        return await runner.run(call, on_start)
