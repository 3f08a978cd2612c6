"""Events of hooks in conversations of the gateway."""

from pathlib import Path

import pytest

from agent.providers.base import ModelRequest
from agent.providers.scripted import EchoProvider, ScriptedProvider
from agent.settings import ToolSettings
from agent.skills.catalog import SkillCatalog, SkillPaths
from agent.turn.command_hooks import CommandHook, CommandHooks, PromptHook
from gateway.core.channel_events import Batch
from tests.agent.props import is_summary_request
from tests.agent.skills.skill_files import write
from tests.agent.turn.recorded_hooks import RecordedHooks
from tests.gateway.parts import Parts, chat_message, running

SKILL = "---\ndescription: Makes a release.\ndisable-model-invocation: true\n---\nTag $0 now."


async def tell(parts: Parts, text: str) -> str:
    """Return the newest message of the chat once it has answered."""
    before = len(parts.platform.texts("1"))
    await parts.bus.accept("chat", "bot", Batch([chat_message(text)]))
    return (await parts.platform.answers("1", before + 1))[-1]


def add_skill(parts: Parts, tmp_path: Path) -> None:
    paths = SkillPaths(tmp_path / "user", tmp_path / "own", parts.workspace)
    parts.agent.skills = SkillCatalog(paths)
    write(parts.workspace / "skills", "make-release", SKILL)


async def test_conversation_that_is_left_ends(tmp_path: Path) -> None:
    record = RecordedHooks(tmp_path)
    async with running(tmp_path, EchoProvider()) as parts:
        parts.agent.hooks = (record.hooks,)
        await tell(parts, "about apples")
        await tell(parts, "/new")
        assert record.inputs("SessionEnd") == [{"reason": "clear"}]
        await tell(parts, "about pears")
        await tell(parts, "/resume 2")
        assert record.inputs("SessionEnd") == [{"reason": "clear"}, {"reason": "resume"}]
        await tell(parts, "/resume")
        assert len(record.inputs("SessionEnd")) == 2
        assert record.inputs("SessionStart") == [{"source": "startup"}] * 2


async def test_skill_of_a_message_is_an_expansion(tmp_path: Path) -> None:
    record = RecordedHooks(tmp_path)
    model = ScriptedProvider(["done", "done"])
    async with running(tmp_path, model, owner="chat:7") as parts:
        add_skill(parts, tmp_path)
        parts.agent.hooks = (record.hooks,)
        for text in ("/make_release v1 now", "no skill"):
            message = chat_message(text)
            await parts.bus.submit(message)
            await parts.until_answered(message)
    assert record.inputs("UserPromptExpansion") == [
        {
            "expansion_type": "slash_command",
            "command_name": "make-release",
            "command_args": "v1 now",
            "command_source": "user",
            "prompt": "/make_release v1 now",
        }
    ]


async def test_blocked_skill_never_reaches_the_model(tmp_path: Path) -> None:
    command = "echo ask the team first >&2; exit 2"
    hook = CommandHook("UserPromptExpansion", command, "make-release")
    model = ScriptedProvider(["hello"])
    async with running(tmp_path, model, owner="chat:7") as parts:
        add_skill(parts, tmp_path)
        parts.agent.hooks = (CommandHooks([hook], ToolSettings()),)
        assert "ask the team first" in await tell(parts, "/make-release v1")
        assert model.requests == []
        await tell(parts, "hello")
    assert "Tag v1 now." not in str(model.requests[0].messages)


@pytest.mark.parametrize("is_blocked", [True, False])
async def test_compaction_on_request(tmp_path: Path, is_blocked: bool) -> None:
    record = RecordedHooks(tmp_path)
    hook = CommandHook("PreCompact", "echo read the plan first >&2; exit 2", "manual")
    blocking = (CommandHooks([hook], ToolSettings()),) if is_blocked else ()
    long = "word " * 400

    def reply(request: ModelRequest) -> str:
        return "They like green." if is_summary_request(request) else f"answer {long}"

    model = ScriptedProvider([reply] * 9)
    async with running(tmp_path, model) as parts:
        for number in range(4):
            message = chat_message(f"question {number} {long}")
            await parts.bus.submit(message)
            await parts.until_answered(message)
        parts.agent.hooks = (record.hooks, *blocking)
        await parts.bus.submit(chat_message("/compact the colours"))
        reply = "read the plan first" if is_blocked else "older messages were summarized"
        await parts.platform.until(lambda: reply in parts.platform.texts("1")[-1])
    assert record.inputs("PreCompact") == [
        {"trigger": "manual", "custom_instructions": "the colours"}
    ]
    assert any(map(is_summary_request, model.requests)) != is_blocked


async def test_verdict_of_a_model_is_paid_by_the_turn(tmp_path: Path) -> None:
    model = ScriptedProvider(['{"ok": true}', "done"])
    hook = PromptHook("UserPromptSubmit", "Polite?")
    async with running(tmp_path, model) as parts:
        parts.agent.hooks = (CommandHooks([hook], ToolSettings()),)
        await tell(parts, "hello")
        assert await parts.count("usage") == 2
