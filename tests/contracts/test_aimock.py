"""Every format with a third-party server: npm `@copilotkit/aimock`.

Its responses come from `aimock.json`. Its command is `llmock`; without it these tests are skipped.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.errors import RateLimited, Unavailable
from agent.events import Reply, TextDelta
from agent.providers.base import ModelRequest, Provider, ToolSpec
from agent.providers.http.transport import Deadlines
from agent.types import Message, Text, Thinking, user
from tests.contracts.formats import FORMATS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.counterpart("aimock")]
NATIVE = ("openai", "openai by sdk", "anthropic", "ollama")
IN_WORDS = ("xml", "xml in ollama")
TOOL = ToolSpec("exec", "Run.", {"type": "object", "properties": {"command": {"type": "string"}}})
WANTED: list[Mapping[str, Any]] = [
    {"command": "Zürich"},
    {"command": "say \"hi\" and 'bye'"},
    {"command": "C:\\new\\table\\"},
    {"command": "👋🏽 👩‍👩‍👧 🇨🇭"},
    {"command": "你好，世界 こんにちは 안녕"},
    {"command": "line\nline\ttab", "deep": {"list": [1, 2.5, None, True]}},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(unused_tcp_port_factory: Any) -> AsyncIterator[str]:
    command = shutil.which("llmock")
    if command is None:
        pytest.skip("aimock is not installed (npm install @copilotkit/aimock)")
    port = str(unused_tcp_port_factory())
    fixtures = str(Path(__file__).parent / "aimock.json")
    process = await asyncio.create_subprocess_exec(
        *(command, "-p", port, "-f", fixtures, "--strict"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while b"listening" not in (line := await process.stdout.readline()):
            assert line, "aimock ended by itself"
    yield f"http://127.0.0.1:{port}"
    with suppress(ProcessLookupError):
        process.terminate()
    # Drain the output: a full pipe would prevent the process from ending.
    await process.communicate()


@pytest_asyncio.fixture(params=NATIVE, loop_scope="module")
async def native(request: pytest.FixtureRequest, server: str) -> AsyncIterator[Provider]:
    provider = FORMATS[request.param].open(server, Deadlines(), "k")
    yield provider
    await provider.aclose()


async def stream_reply(provider: Provider, *messages: Message) -> Reply:
    model = "claude-opus-5" if provider.name == "anthropic" else "gpt-5"
    request = ModelRequest(model, "Be brief.", messages, (TOOL,))
    events = [event async for event in provider.stream(request)]
    reply = events[-1]
    assert isinstance(reply, Reply)
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert shown == reply.message.text
    return reply


async def test_text_arrives_unchanged(native: Provider) -> None:
    reply = await stream_reply(native, user("say something"))
    assert reply.message.text == 'Grüße aus Zürich, "你好" 👋🏽 — C:\\new\n'
    assert reply.finish_reason == "stop"
    assert reply.usage is not None


async def test_parallel_calls_and_their_results_are_unchanged(
    native: Provider,
) -> None:
    first = await stream_reply(native, user("call them all"))
    calls = first.message.tool_calls
    assert [call.arguments for call in calls] == WANTED
    assert len({call.id for call in calls}) == len(WANTED)
    results = [Message("tool", (Text("ok"),), (), call.id) for call in calls]
    last = await stream_reply(native, user("call them all"), first.message, *results)
    assert last.message.text == "All done."


async def test_thinking_is_separated_from_the_answer(native: Provider) -> None:
    reply = await stream_reply(native, user("think first"))
    assert reply.message.text == "Yes."
    thoughts = [part.text for part in reply.message.content if isinstance(part, Thinking)]
    # This server does not support thinking in Ollama's format.
    assert thoughts == ([] if native.name == "ollama" else ["hm, well"])


async def test_interrupted_stream_is_not_a_reply(native: Provider) -> None:
    with pytest.raises(Unavailable):
        await stream_reply(native, user("break off"))


async def test_rate_limit_is_recognized(native: Provider) -> None:
    with pytest.raises(RateLimited):
        await stream_reply(native, user("too fast"))


@pytest.mark.parametrize("name", IN_WORDS)
async def test_calls_in_text_are_detected(server: str, name: str) -> None:
    provider = FORMATS[name].open(server, Deadlines(), "k")
    reply = await stream_reply(provider, user("in words"))
    await provider.aclose()
    assert reply.message.text == "Look: "
    wanted = {"command": 'Zürich "</tool>" 你好'}
    assert [call.arguments for call in reply.message.tool_calls] == [wanted]
