"""Keys and typed text after the service returns an error."""

import asyncio
import io
import os
from pathlib import Path

import pytest

from agent import events
from agent.context.project.context import ProjectContext
from agent.errors import KoreError
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.cli.console.chat.turn_screen import TurnScreen
from gateway.cli.console.input.plain_prompt import PlainPrompt
from gateway.cli.console.output.screen import Screen
from gateway.core.messages import InboundMessage, MessageOptions
from gateway.core.records import Delivered, WatchEvent
from tests.fakes.memory_service import MemoryService


class Summing(MemoryService):
    """Service that makes a summary before every answer."""

    def _publish_event(self, lane: str, event: WatchEvent) -> None:
        if isinstance(event, Delivered):
            super()._publish_event(lane, events.Compacted(900, 100, 2, 0, 7))
        super()._publish_event(lane, event)


class Refusing(MemoryService):
    """Service that rejects the first message."""

    refused = False

    async def submit(self, message: InboundMessage) -> None:
        if not self.refused:
            self.refused = True
            raise KoreError("the disk is full")
        await super().submit(message)


class Full(MemoryService):
    """Service whose disk is full."""

    async def stop_turn(self, lane: str) -> bool:
        raise KoreError("the disk is full")


async def test_unstored_stop_is_reported_and_the_chat_continues() -> None:
    keyboard, typist = os.pipe()
    screen = io.StringIO()
    with open(keyboard) as keys, open(typist, "w"):
        async with Full() as service, asyncio.timeout(30):
            stage = TurnScreen(
                service, MessageBuilder("main"), Screen(screen), PlainPrompt(keys, screen)
            )
            async with stage.open(unfinished=False):
                stage.interrupt()
                while "the disk is full" not in screen.getvalue():
                    await asyncio.sleep(0.005)
                await stage.submit("hello")
                await stage.until_idle()
    assert [message.content for message in service.submitted] == ["hello"]


async def test_summary_of_a_command_is_shown_once() -> None:
    keyboard, typist = os.pipe()
    screen = io.StringIO()
    with open(keyboard) as keys, open(typist, "w"):
        async with Summing() as service, asyncio.timeout(30):
            stage = TurnScreen(
                service, MessageBuilder("main"), Screen(screen), PlainPrompt(keys, screen)
            )
            async with stage.open(unfinished=False):
                await stage.submit("/compact")
                await stage.until_idle()
                assert "older messages" not in screen.getvalue()
                assert "command /compact" in screen.getvalue()
                await stage.submit("hello")
                await stage.until_idle()
    assert screen.getvalue().count("older messages were summarized (/context") == 1


async def test_context_of_a_rejected_message_is_sent_with_the_next(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("apples")
    project = ProjectContext(None, (tmp_path / "notes.md",), 1_000)
    speaker = MessageBuilder("main", MessageOptions(mode="ask"), project)
    speaker.user_commands.append({"text": "$ ls"})
    keyboard, typist = os.pipe()
    screen = io.StringIO()
    with open(keyboard) as keys, open(typist, "w"):
        async with Refusing() as service, asyncio.timeout(30):
            stage = TurnScreen(service, speaker, Screen(screen), PlainPrompt(keys, screen))
            async with stage.open(unfinished=False):
                with pytest.raises(KoreError):
                    await stage.submit("hello")
                await stage.submit("hello again")
                await stage.submit("and again")
                await stage.until_idle()
    result, later = (message.options for message in service.submitted)
    assert result.run == ({"text": "$ ls"},)
    assert "apples" in result.project["text"]
    assert later.to_json().keys() == {"mode"}


async def test_rejected_command_keeps_the_command_line_option() -> None:
    keyboard, typist = os.pipe()
    screen = io.StringIO()
    with open(keyboard) as keys, open(typist, "w"):
        async with Refusing() as service, asyncio.timeout(30):
            speaker = MessageBuilder("main", MessageOptions(mode="ask"))
            stage = TurnScreen(service, speaker, Screen(screen), PlainPrompt(keys, screen))
            async with stage.open(unfinished=False):
                with pytest.raises(KoreError):
                    await stage.submit("/plan")
                await stage.submit("hello")
                await stage.until_idle()
    assert [message.options for message in service.submitted] == [MessageOptions(mode="ask")]


class Watching(MemoryService):
    """Service that reports a changed file."""

    def change(self, lane: str) -> None:
        self._publish_event(lane, events.FileChanged("/project/a.txt", "user"))


async def test_changed_file_keeps_the_line_being_typed() -> None:
    keyboard, typist = os.pipe()
    with open(keyboard) as keys, open(typist, "w") as keyboard_end:
        service = Watching()
        async with service, asyncio.timeout(30):
            screen = io.StringIO()
            prompt = PlainPrompt(keys, screen)
            stage = TurnScreen(service, MessageBuilder("main"), Screen(screen), prompt)
            async with stage.open(unfinished=False):
                reading = asyncio.create_task(prompt.read())
                while not stage.has_events:
                    service.change(stage.lane)
                    await asyncio.sleep(0.005)
                keyboard_end.write("hello\n")
                keyboard_end.flush()
                assert await reading == "hello"
    assert "a.txt" not in screen.getvalue()
