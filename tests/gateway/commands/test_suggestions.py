"""Suggestions for mistyped commands."""

from pathlib import Path

import pytest

from agent.providers.scripted import EchoProvider
from gateway.commands import command_of, is_at_once, suggest
from gateway.commands.table import COMMANDS
from tests.gateway.parts import chat_message, running


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("/statsu", "status"),
        ("/Hlep", "help"),
        ("/models", "model"),
        ("/compcat@my_bot", "compact"),
    ],
)
def test_similar_command_is_suggested(typed: str, name: str) -> None:
    assert suggest(typed) == name
    assert is_at_once(chat_message(typed))


@pytest.mark.parametrize(
    "text",
    [
        *("/etc/hosts is odd", "/etc/hosts", "/notes.md", "/home/", "//", "/"),
        *("statsu", "/statsu now", "what is /statsu", ""),
    ],
)
def test_paths_and_sentences_are_sent_to_the_model(text: str) -> None:
    assert command_of(chat_message(text)) is None


def test_forwarded_command_gets_no_suggestion() -> None:
    assert command_of(chat_message("/statsu", forwarded=True)) is None


async def test_unknown_command_does_not_reach_the_model(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        await parts.bus.submit(chat_message("/statsu"))
        await parts.platform.answers("1", 1)
        assert parts.platform.texts("1") == ["Unknown command `/statsu`; did you mean `/status`?"]
        assert await parts.count("message") == 0
        await parts.bus.submit(chat_message("/nosuch"))
        unknown = (await parts.platform.answers("1", 2))[1]
        assert unknown == "Unknown command `/nosuch`. /help lists the commands."
        for n, word in enumerate(("/skills", "/mcp list", "/plugin add x", "/doctor", "/exit"), 3):
            await parts.bus.submit(chat_message(word))
            assert "/nosuch" not in (await parts.platform.answers("1", n))[-1]
        assert await parts.count("message") == 0


async def test_clear_and_reset_begin_a_new_conversation(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        for n, word in enumerate(("/new", "/clear", "/Reset"), 1):
            await parts.bus.submit(chat_message(word))
            assert "New conversation" in (await parts.platform.answers("1", n))[-1]


async def test_help_names_every_command_once(tmp_path: Path) -> None:
    listed = [name for name in COMMANDS if name != "start"]
    async with running(tmp_path, EchoProvider()) as parts:
        await parts.bus.submit(chat_message("/help"))
        await parts.platform.until(lambda: "/help - " in "".join(parts.platform.texts("1")))
        text = "".join(parts.platform.texts("1"))
        assert all(f"/{name} - " in text for name in listed)
        assert "Conversation" in text.splitlines()[0]
