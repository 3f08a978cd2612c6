"""What becomes of keys when the service says no."""

import asyncio
import io
import os

from agent.errors import KoreError
from gateway.console.plain import PlainPrompt
from gateway.console.screen import Screen
from gateway.console.speaker import Speaker
from gateway.console.stage import Stage
from tests.fakes.memory_service import MemoryService


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
