"""Hooks in conversations of the gateway."""

import json
from pathlib import Path

import pytest

from agent.approvals import ApprovalRequest
from agent.errors import ConfigError
from agent.events import ApprovalAsked
from agent.providers.scripted import ScriptedProvider
from agent.settings import ToolSettings
from agent.tools.run_context import RunContext
from agent.turn.command_hooks import CommandHook, CommandHooks
from agent.turn.hooks import Hooks
from agent.types import Message
from gateway.config import Settings
from gateway.config.installed_plugins import InstalledPlugins
from gateway.core.messages import console_principal
from gateway.turns.agents.factory import hooks_of
from tests.agent.props import call, calls
from tests.gateway.parts import console_message, running


async def test_hook_blocks_a_call_of_a_conversation(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("list_dir", path=".")), "done"])
    async with running(tmp_path, model) as parts:
        hook = CommandHook("PreToolUse", "echo not on Sundays >&2; exit 2", "LS")
        parts.agent.hooks = (CommandHooks([hook], ToolSettings()),)
        message = console_message("What is here?")
        await parts.bus.submit(message)
        await parts.until_answered(message)
    [result] = [item for item in model.requests[-1].messages if item.role == "tool"]
    assert "not on Sundays" in result.text


class Reviewer(Hooks[None]):
    """Hooks offered by a package."""

    async def before_end(self, run: RunContext[None], reply: Message) -> str | None:
        return None if "checked" in reply.text else "Check it."


def offer(folder: Path, module: str, target: str) -> None:
    """Install a package that offers hooks named `review`."""
    info = folder / "reviewing-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: reviewing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kore.hooks]\nreview = {module}:{target}\n")


def test_python_hooks_are_loaded_by_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(tmp_path / "site", __name__, "Reviewer")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    plugins = InstalledPlugins(tmp_path / "plugins")
    assert hooks_of(Settings(), plugins, ToolSettings()) == ()
    settings = Settings().model_copy(update={"python_hooks": ("review",)})
    [hooks] = hooks_of(settings, plugins, ToolSettings())
    assert isinstance(hooks, Reviewer)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("missing", "cannot be loaded"),
        ("offer", "expected a subclass of kore.Hooks"),
        (None, "no installed package offers"),
    ],
)
def test_unusable_python_hooks_are_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str | None, words: str
) -> None:
    if target is not None:
        offer(tmp_path / "site", __name__, target)
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
    settings = Settings().model_copy(update={"python_hooks": ("review",)})
    with pytest.raises(ConfigError, match=words):
        hooks_of(settings, InstalledPlugins(tmp_path / "plugins"), ToolSettings())


async def test_hook_text_is_stored_in_order(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("list_dir", path=".")), "Done.", "checked", "later"])
    async with running(tmp_path, model) as parts:
        context = CommandHook("UserPromptSubmit", "echo the build is red")
        parts.agent.hooks = (Reviewer(), CommandHooks([context], ToolSettings()))
        first = console_message("What is here?")
        await parts.bus.submit(first)
        await parts.until_answered(first)
        parts.agent.hooks = ()
        second = console_message("And now?")
        await parts.bus.submit(second)
        await parts.until_answered(second)
    roles = [message.role for message in model.requests[-1].messages]
    assert roles == [
        *("user", "user", "assistant", "tool", "assistant", "user", "assistant", "user")
    ]
    *_, third, fourth = model.requests
    # The conversation is identical byte for byte, so the model's cache applies.
    assert fourth.messages[: len(third.messages)] == third.messages


async def test_blocked_message_is_answered_and_removed(tmp_path: Path) -> None:
    model = ScriptedProvider(["fine"])
    async with running(tmp_path, model) as parts:
        hook = CommandHook("UserPromptSubmit", "grep -q hunter2 && echo no passwords >&2 && exit 2")
        parts.agent.hooks = (CommandHooks([hook], ToolSettings()),)
        first = console_message("it is hunter2")
        await parts.bus.submit(first)
        await parts.until_answered(first)
        second = console_message("And now?")
        await parts.bus.submit(second)
        await parts.until_answered(second)
    assert len(model.requests) == 1
    words = json.dumps([str(message) for message in model.requests[0].messages])
    assert "hunter2" not in words
    assert "A hook blocked this message: no passwords" in words


class QuestionLog(Hooks[None]):
    """Hooks that record the questions to people."""

    def __init__(self) -> None:
        self.tools: list[str] = []

    async def on_question(self, run: RunContext[None], question: ApprovalRequest) -> None:
        self.tools.append(question.tool)


async def test_unattended_question_notifies_no_hook(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("exec", command="touch a")), "done"])
    questions = QuestionLog()
    async with running(tmp_path, model) as parts:
        parts.agent.hooks = (questions,)
        message = console_message("go", options={"unattended": True})
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert questions.tools == []


async def test_question_notifies_hooks_once_and_its_answer_does_not(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("exec", command="touch a")), "done"])
    questions = QuestionLog()
    async with running(tmp_path, model) as parts:
        parts.agent.hooks = (questions,)
        message = console_message("go")
        async with parts.service.watch(message.session_key) as events:
            await parts.bus.submit(message)
            async for event in events:
                if isinstance(event, ApprovalAsked):
                    await parts.service.answer_approval(event.nonce, "deny", console_principal())
                    break
        await parts.until_answered(message)
    assert questions.tools == ["exec"]
