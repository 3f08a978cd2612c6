"""Prompt of the terminal, and the input submitted there."""

import asyncio

from gateway.core.session_folder import SessionFolder
from tests.fakes.memory_service import MemoryService
from tests.gateway.cli.console.terminal import DEADLINE_S, Terminal

PROMPT = "›"


async def submissions(owner: MemoryService, count: int) -> list[str]:
    async with asyncio.timeout(DEADLINE_S):
        while len(owner.submitted) < count:
            await asyncio.sleep(0.01)
    return [message.content for message in owner.submitted]


async def say_hello(terminal: Terminal, owner: MemoryService) -> SessionFolder | None:
    """Send a message and return the folder that it names."""
    await terminal.see(PROMPT)
    terminal.type("hello\r")
    await terminal.see("echo: hello")
    return owner.submitted[-1].options.folder
