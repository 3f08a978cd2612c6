"""What becomes of keys when the service says no."""

import asyncio
import io
import os

from agent import events
from agent.errors import KoreError
from gateway.console.plain import PlainPrompt
from gateway.console.screen import Screen
from gateway.console.speaker import Speaker
from gateway.console.stage import Stage
from gateway.service import Delivered, WatchEvent
from tests.fakes.memory_service import MemoryService


class Summing(MemoryService):
    """Makes a summary before everything that it answers."""

    def _tell(self, lane: str, event: WatchEvent) -> None:
        if isinstance(event, Delivered):
            super()._tell(lane, events.Compacted(900, 100, 2, 0, 7))
        super()._tell(lane, event)


class Full(MemoryService):
    """A service whose disk is full."""

    async def stop(self, lane: str) -> bool:
        raise KoreError("the disk is full")


async def test_a_stop_that_cannot_be_stored_is_told_and_the_conversation_goes_on() -> None:
    keyboard, typist = os.pipe()
    screen = io.StringIO()
    with open(keyboard) as keys, open(typist, "w"):
        async with Full() as service, asyncio.timeout(10):
            stage = Stage(service, Speaker("main"), Screen(screen), PlainPrompt(keys, screen))
            async with stage.open(unfinished=False):
                stage.interrupt()
                while "the disk is full" not in screen.getvalue():
                    await asyncio.sleep(0.005)
                await stage.submit("hello")
                await stage.until_idle()
    assert [message.content for message in service.submitted] == ["hello"]


async def test_the_summary_of_an_own_command_is_said_once_and_that_of_others_too() -> None:
    keyboard, typist = os.pipe()
    screen = io.StringIO()
    with open(keyboard) as keys, open(typist, "w"):
        async with Summing() as service, asyncio.timeout(10):
            stage = Stage(service, Speaker("main"), Screen(screen), PlainPrompt(keys, screen))
            async with stage.open(unfinished=False):
                await stage.submit("/compact")
                await stage.until_idle()
                assert "older messages" not in screen.getvalue()
                assert "command /compact" in screen.getvalue()
                await stage.submit("hello")
                await stage.until_idle()
    assert screen.getvalue().count("older messages are a summary") == 1
