"""Processes of servers, which end with their context."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.security.sandbox.unconfined import Unconfined
from agent.settings import ToolSettings
from agent.tools.shell.confined_server import ConfinedServer, ServerCommand, ServerLog
from agent.tools.shell.resource_limits import ResourceLimits
from tests.processes import has_ended, lasting_command, runs


@pytest.mark.parametrize("cancellations", [1, 2])
async def test_server_ends_however_often_its_owner_is_cancelled(
    tmp_path: Path, cancellations: int
) -> None:
    command = lasting_command()
    closed = asyncio.Event()

    def find_command() -> ServerCommand:
        return ServerCommand(tuple(command.split()), tmp_path, tmp_path / "home")

    server = ConfinedServer(
        *("server", find_command, ToolSettings(sandbox=Unconfined())),
        ServerLog(lambda: tmp_path / "home"),
        ResourceLimits(),
    )

    async def own() -> None:
        async with server.open(ignore, lambda: asyncio.sleep(0)):
            try:
                await asyncio.Event().wait()
            finally:
                closed.set()

    owner = asyncio.create_task(own())
    assert await runs(command)
    owner.cancel()
    await closed.wait()
    for _ in range(1, cancellations):
        # The owner waits for the server to end on its own, which this server never does.
        await asyncio.sleep(0)
        owner.cancel()
    await asyncio.wait({owner})
    assert await has_ended(command)


ignore: Callable[[bytes], None] = bytes
