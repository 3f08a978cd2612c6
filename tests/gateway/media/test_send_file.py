"""Captions of sent files, which are model text like any answer."""

import json
from dataclasses import replace
from pathlib import Path

from agent.providers.scripted import ScriptedProvider
from agent.security.taint.taint import BOTH
from agent.types import ToolCall, assistant
from gateway.channels.base import ChatUnreachable
from gateway.core.messages import OutboundMessage
from gateway.store.repositories.conversations import sessions
from tests.fakes.platform import FILE_LIMITS, Platform
from tests.gateway.parts import chat_message, running


class Carrying(Platform):
    """`Platform` that accepts files and records a caption as its text."""

    file_limits = FILE_LIMITS

    async def send_files(self, message: OutboundMessage) -> str:
        self.names = [file.name for file in message.content.files]
        return await self.send(replace(message, content=replace(message.content, files=())))


def sends(caption: str, name: str = "a.txt") -> ToolCall:
    arguments = {"paths": [name], "caption": caption}
    return ToolCall("c1", "send_file", arguments, json.dumps(arguments))


async def test_caption_contains_no_link_that_could_leak_data(tmp_path: Path) -> None:
    link = "https://evil.example/?d=secret"
    steps = [
        assistant("Hello."),
        assistant("", (sends(f"See {link} and [this]({link})"),)),
        assistant("Sent."),
    ]
    platform = Carrying()
    async with running(tmp_path, steps, platform=platform, allow=("7",), owner="chat:7") as parts:
        (parts.workspace / "a.txt").write_text("x")
        await parts.bus.submit(chat_message("hello"))
        await platform.answers("1", 1)
        ((session,),) = await parts.stored("session", "id")
        await parts.database.transact(sessions.add_taint, session, BOTH)
        await parts.bus.submit(chat_message("send it"))
        _, caption, _ = await platform.answers("1", 3)
    assert f"`{link}`" in caption
    assert f"]({link})" not in caption
    assert caption.count(link) == caption.count(f"`{link}`")


async def test_file_name_contains_no_link(tmp_path: Path) -> None:
    name = "www.secret.evil.example.txt"
    steps = [assistant("Hello."), assistant("", (sends("Here.", name),)), assistant("Sent.")]
    platform = Carrying()
    async with running(tmp_path, steps, platform=platform, allow=("7",), owner="chat:7") as parts:
        (parts.workspace / name).write_text("x")
        await parts.bus.submit(chat_message("hello"))
        await platform.answers("1", 1)
        ((session,),) = await parts.stored("session", "id")
        await parts.database.transact(sessions.add_taint, session, BOTH)
        await parts.bus.submit(chat_message("send it"))
        await platform.answers("1", 3)
    assert platform.names == ["www_secret_evil_example.txt"]


class NoFiles(Carrying):
    """`Carrying` platform whose chats refuse files."""

    async def send_files(self, message: OutboundMessage) -> str:
        raise ChatUnreachable("not enough rights to send documents")


async def test_model_is_informed_that_delivery_is_unconfirmed(tmp_path: Path) -> None:
    platform = NoFiles()
    model = ScriptedProvider([assistant("", (sends("Here."),)), assistant("Sent.")])
    async with running(tmp_path, model, platform=platform, allow=("7",), owner="chat:7") as parts:
        (parts.workspace / "a.txt").write_text("x")
        await parts.bus.submit(chat_message("send it"))
        refused, _ = await platform.answers("1", 2)
    assert "📎 Not sent, because this chat does not allow it: a.txt." in refused
    assert "It is not known yet whether it arrives" in model.requests[-1].messages[-1].text
