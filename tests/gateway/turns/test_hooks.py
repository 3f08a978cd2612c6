"""Hooks in conversations of the gateway."""

from pathlib import Path

from agent.providers.scripted import ScriptedProvider
from agent.settings import ToolSettings
from agent.turn.command_hooks import CommandHook, CommandHooks
from tests.agent.props import call, calls
from tests.gateway.parts import console_message, running


async def test_a_hook_blocks_a_call_of_a_conversation(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("list_dir", path=".")), "done"])
    async with running(tmp_path, model) as parts:
        hook = CommandHook("PreToolUse", "echo not on Sundays >&2; exit 2", "LS")
        parts.agent.hooks = (CommandHooks([hook], ToolSettings()),)
        message = console_message("What is here?")
        await parts.bus.submit(message)
        await parts.until_answered(message)
    [result] = [one for one in model.requests[-1].messages if one.role == "tool"]
    assert "not on Sundays" in result.text
