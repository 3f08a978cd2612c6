"""Background commands with and without a sandbox."""

import asyncio
from dataclasses import replace
from typing import Any

from agent.security.sandbox.base import Sandbox
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec
from agent.tools.shell.process_registry import ProcessRegistry
from agent.tools.shell.process_tool import ProcessTool
from agent.types import ToolResult


class Shell:
    """Both tools, called as a model calls them."""

    def __init__(self, call: CallContext, sandbox: Sandbox | None = None) -> None:
        settings = replace(ToolSettings(), sandbox=sandbox)
        self.processes = ProcessRegistry()
        self.exec = Exec(settings, processes=self.processes)
        self.process = ProcessTool(settings, self.processes)
        self.call = call

    async def start(self, command: str, **args: Any) -> ToolResult:
        result = {"command": command, "background": True, **args}
        plan = await self.exec.plan(result, self.call)
        return await self.exec.run(result, replace(self.call, plan=plan))

    async def __call__(self, action: str, **args: Any) -> ToolResult:
        return await self.process.run({"action": action, **args}, self.call)

    async def hear(self, wanted: str, **args: Any) -> str:
        """Return the output up to and including this text."""
        text = ""
        async with asyncio.timeout(30):
            while wanted not in text:
                text += (await self("output", wait_s=5, **args)).for_model
        return text
