"""References to MCP servers in conversations, and the right to use them."""

import sys
from pathlib import Path

import pytest

from agent.mcp.settings import McpServerSettings, McpSettings
from agent.providers.scripted import ScriptedProvider
from agent.types import Context, Message
from tests import fakes
from tests.gateway.parts import Parts, chat_message, console_message, load_history, running

pytest.importorskip("mcp", reason="needs the extra mcp")
SERVER = Path(fakes.__file__).with_name("mcp_server.py")


def use_servers(parts: Parts, folder: Path) -> None:
    server = McpServerSettings("s", sys.executable, ("-B", str(SERVER)))
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
async def test_role_decides_which_mentions_are_read_unasked(
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
