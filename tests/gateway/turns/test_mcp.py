"""References to MCP servers in conversations, and the right to use them."""

import sys
from pathlib import Path
from typing import Any

import pytest

from agent.approvals import Answer
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.providers.scripted import ScriptedProvider
from agent.types import Context, Message
from gateway.core.messages import MessageOptions
from tests import fakes
from tests.agent.props import call, calls
from tests.gateway.access.approvals import OWNER, question
from tests.gateway.parts import Parts, chat_message, console_message, load_history, running

pytest.importorskip("mcp", reason="needs the extra mcp")
SERVER = Path(fakes.__file__).with_name("mcp_server.py")


def use_servers(parts: Parts, folder: Path, **more: Any) -> None:
    server = McpServerSettings("s", sys.executable, ("-B", str(SERVER)), **more)
    parts.agent._mcp_settings = McpSettings((server,), folder / "mcp")
    parts.agent._toolbox = None


def context_texts(message: Message) -> str:
    return "\n".join(part.text for part in message.content if isinstance(part, Context))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("What does @s:memo://one say?", "the text of memo://one"),
        ("/s:greet Ann Other", "user: Say hello to Ann Other."),
        ("/s:greet", "The prompt greet needs name: greet name"),
        ("/s:nothing", "has no prompt nothing; there are: greet."),
    ],
)
async def test_message_may_mention_resources_of_a_server(
    tmp_path: Path, line: str, words: str
) -> None:
    model = ScriptedProvider(["answer"])
    async with running(tmp_path, model) as parts:
        use_servers(parts, tmp_path)
        message = console_message(line)
        await parts.bus.submit(message)
        await parts.until_answered(message)
        question = (await load_history(parts))[0]
        assert words in context_texts(question)
        assert question.text == line
        await parts.until_stored("session", taint="untrusted")
    assert words in context_texts(model.requests[0].messages[-1])


@pytest.mark.parametrize("line", ["write to ann@s:x", "@other:memo://one", "/other:greet Ann"])
async def test_line_without_a_server_name_is_plain_text(tmp_path: Path, line: str) -> None:
    async with running(tmp_path, ["answer"]) as parts:
        use_servers(parts, tmp_path)
        message = chat_message(line)
        await parts.bus.submit(message)
        await parts.until_answered(message)
        (question, *_) = await load_history(parts)
        assert "memo" not in context_texts(question)
        servers = parts.agent.mcp
        assert servers is not None
        # Only the tools were requested.
        assert servers.names == ("s",)


@pytest.mark.parametrize(
    ("tools", "is_read"),
    [
        ('"*": {}', True),
        ('"*": {ask: true}', False),
        ('"*": {}, mcp__s__*: {ask: true}', False),
        ('"*": {}, mcp__s__*: {allow: false}', False),
        ('"*": {allow: false}, mcp__s__*: {}', True),
        ('"*": {}, mcp__other__*: {allow: false}', True),
    ],
)
@pytest.mark.parametrize("line", ["What does @s:memo://one say?", "/s:greet Ann"])
async def test_role_determines_which_mentions_are_read_without_a_question(
    tmp_path: Path, line: str, tools: str, is_read: bool
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"roles: {{general: {{tools: {{{tools}}}}}}}")
    async with running(tmp_path, ["answer"], policy=policy) as parts:
        use_servers(parts, tmp_path)
        message = chat_message(line)
        await parts.bus.submit(message)
        await parts.until_answered(message)
        (question, *_) = await load_history(parts)
        texts = context_texts(question)
        assert ("text of memo" in texts or "Say hello" in texts) == is_read


async def unattended_results(parts: Parts, model: ScriptedProvider, chat: str) -> list[str]:
    """Return the results of the calls of a turn with `-y` at an unattended console."""
    message = console_message("go", chat, options=MessageOptions(unattended=True, auto=True))
    await parts.bus.submit(message)
    await parts.until_answered(message)
    return [message.text for message in model.requests[-1].messages if message.role == "tool"]


@pytest.mark.parametrize("answer", ["once", "session", "always"])
async def test_trust_in_a_server_applies_to_unattended_runs(tmp_path: Path, answer: Answer) -> None:
    turn = [calls(call("mcp__s__echo", n, text=n)) for n in ("one", "two")]
    model = ScriptedProvider([*turn, "done", *turn, "done", *turn, "done"])
    async with running(tmp_path, model, owner=OWNER) as parts:
        use_servers(parts, tmp_path, allow=("*",), is_private=True)
        first, second = await unattended_results(parts, model, "before")
        assert first == "one"
        assert "mcp_servers.s.trusted_with_private_data" in second
        attended = console_message("go")
        await parts.bus.submit(attended)
        prompt = await question(parts)
        assert await parts.service.answer_approval(prompt.nonce, answer, "cli:0")
        await parts.until_answered(attended)
        titles = [grant["title"] for grant in await parts.service.list_grants()]
        assert titles == ["private data for the MCP server s"] * (answer != "once")
        _, last = await unattended_results(parts, model, "after")
        assert (last == "two") == (answer == "always")


async def test_trust_does_not_apply_to_another_program(tmp_path: Path) -> None:
    turn = [calls(call("mcp__s__echo", n, text=n)) for n in ("one", "two")]
    model = ScriptedProvider([*turn, "done", *turn, "done"])
    async with running(tmp_path, model, owner=OWNER) as parts:
        use_servers(parts, tmp_path, allow=("*",), is_private=True)
        attended = console_message("go")
        await parts.bus.submit(attended)
        prompt = await question(parts)
        assert await parts.service.answer_approval(prompt.nonce, "always", "cli:0")
        await parts.until_answered(attended)
        (grant,) = await parts.service.list_grants()
        assert grant["folder"] == ""
        server = McpServerSettings(
            "s", sys.executable, ("-B", "-u", str(SERVER)), allow=("*",), is_private=True
        )
        parts.agent._mcp_settings = McpSettings((server,), tmp_path / "mcp2")
        parts.agent._toolbox = None
        _, denied = await unattended_results(parts, model, "after")
        assert "Not allowed" in denied
