"""History of a resumed session in the terminal."""

import asyncio
import io
from pathlib import Path

import pytest

from gateway.cli.console.chat.local_commands import SessionCommands
from gateway.cli.console.output.screen import Screen
from tests.gateway.parts import console_message, opened


async def no_choice(question: str) -> str:
    raise AssertionError(question)


@pytest.mark.parametrize("is_unfinished", [True, False])
async def test_undelivered_answer_is_not_recalled(tmp_path: Path, is_unfinished: bool) -> None:
    async with opened(tmp_path, ["the lamp is blue"]) as parts:
        bus = asyncio.create_task(parts.bus.run())
        message = console_message("which colour?")
        await parts.bus.submit(message)
        await parts.until_answered(message)
        bus.cancel()
        await asyncio.wait({bus})
        ((session,),) = await parts.stored("session", "id")
        out = io.StringIO()
        commands = SessionCommands(parts.service, Screen(out), no_choice)
        await commands.recall(session, answer_follows=is_unfinished)
    assert "which colour?" in out.getvalue()
    assert ("the lamp is blue" in out.getvalue()) is not is_unfinished
