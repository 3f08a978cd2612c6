"""Reminder to save memory before a library user's conversation is summarized."""

from pathlib import Path

import pytest

from agent.prompts import load_prompt
from agent.run.history import MemoryHistory
from agent.types import Context, Message, Taint, Text, ToolCall, assistant, user
from tests.agent.props import scripted

ASKED = Context(load_prompt("remember_now").strip())


def talk(rounds: int) -> list[Message]:
    return [m for n in range(rounds) for m in (user(f"q{n} " * 900), assistant("b" * 900))]


async def ask(tmp_path: Path, messages: list[Message], *prompts: str) -> list[Message]:
    """Return the prompts as stored."""
    history = MemoryHistory()
    await history.append("s", messages)
    agent, _ = scripted(["fine"] * len(prompts), tmp_path, history=history)
    for prompt in prompts:
        await agent.run(prompt, session="s")
    stored = await history.load("s")
    return [item for item in stored if item.text in prompts]


@pytest.mark.parametrize(("rounds", "asked"), [(10, False), (120, True)])
async def test_reminder_needs_a_nearly_full_conversation(
    tmp_path: Path, rounds: int, asked: bool
) -> None:
    (question,) = await ask(tmp_path, talk(rounds), "and now?")
    assert (ASKED in question.content) is asked


async def test_reminder_appears_once(tmp_path: Path) -> None:
    first, second = await ask(tmp_path, talk(120), "and now?", "and then?")
    assert ASKED in first.content
    assert ASKED not in second.content


async def test_reminder_is_omitted_after_untrusted_text(tmp_path: Path) -> None:
    stranger: frozenset[Taint] = frozenset({"untrusted"})
    call = ToolCall("c", "web_fetch", {}, "{}")
    fetched = Message("tool", (Text("x"),), (), "c", taint=stranger)
    beginning = [user("look"), assistant("", (call,)), fetched, assistant("Seen.")]
    (question,) = await ask(tmp_path, [*beginning, *talk(120)], "and now?")
    assert ASKED not in question.content
