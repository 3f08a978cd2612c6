"""Replies without end, in every API format."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from agent.events import REPEATING, Notice, Reply
from agent.providers.base import ModelRequest, ToolSpec
from agent.providers.bounded import LEAST_REPETITION_CHARS, UNKNOWN_WINDOW_TOKENS
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.types import user
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Break, Call, ReplyScript

TOOL = ToolSpec("exec", "Run.", {"type": "object", "properties": {"command": {"type": "string"}}})
# 120,000 characters without repetition, about 30,000 tokens.
VARIED = " ".join(f"{n:05}" for n in range(20_000))
REPEATED = "And so it goes on and on. " * 6_000
# Texts that people want although they repeat themselves, of more than 15,000 characters each.
TABLE = "| id | value |\n| --- | --- |\n" + "| 0 | 0 |\n" * 1_600
ROWS = "0, 0, 0\n" * 2_000
DRAWING = "The field:\n" + ("+---" * 20 + "+\n" + "|   " * 20 + "|\n") * 100
GRID = json.dumps([[0] * 200] * 100)
FORMATS: dict[str, dict[str, Any]] = {
    "openai": {"model": "openai/m"},
    "openai by sdk": {"model": "openai/m", "transport": "sdk"},
    "responses": {"model": "openai/m", "api": "responses"},
    "anthropic": {"model": "anthropic/m"},
    "ollama": {"model": "ollama/m", "context_tokens": 20_000},
    "text tools": {"model": "openai/m", "tools": "xml"},
}
Ask = Callable[..., Awaitable[Reply]]


def endless(**fields: Any) -> ReplyScript:
    """Return a reply in 200 pieces that hangs before its last piece."""
    return ReplyScript(pieces=200, breaks=Break("hang", after=199), **fields)


@pytest.fixture
def notices() -> list[str]:
    """Return the texts of all notices during a test."""
    return []


@pytest.fixture(params=FORMATS.values(), ids=FORMATS)
async def ask(
    request: pytest.FixtureRequest, model_server: ModelServer, notices: list[str]
) -> AsyncIterator[Ask]:
    pools: list[ModelPool] = []

    async def ask(script: ReplyScript, **fields: Any) -> Reply:
        config = request.param | fields
        model_server.script(script)
        base = model_server.url if "ollama" in config["model"] else model_server.base_url
        entry = ModelConfig("m", api_base=base, api_key="k", **config)
        pool = ModelPool("m", [entry])
        pools.append(pool)
        opened = pool.open()
        asked = ModelRequest(opened.model, "Be brief.", (user("hi"),), (TOOL,))
        events = [event async for event in opened.provider.stream(asked)]
        notices.extend(event.text for event in events if isinstance(event, Notice))
        assert isinstance(events[-1], Reply)
        return events[-1]

    yield ask
    for pool in pools:
        await pool.aclose()


async def test_reply_ends_at_its_limit_and_is_not_requested_again(
    ask: Ask, model_server: ModelServer, notices: list[str], request: pytest.FixtureRequest
) -> None:
    reply = await ask(endless(text=VARIED))
    assert reply.finish_reason == "length"
    if "ollama" not in request.node.name:
        assert any("Set context_tokens" in text for text in notices)
    assert VARIED.startswith(reply.message.text)
    assert len(reply.message.text) >= 4 * UNKNOWN_WINDOW_TOKENS
    assert len(model_server.requests) == 1
    await model_server.wait_for(lambda: model_server.abandoned == 1)


async def test_reply_that_repeats_itself_ends_early(ask: Ask, model_server: ModelServer) -> None:
    reply = await ask(endless(text="Once upon a time. " + REPEATED))
    assert reply.finish_reason == REPEATING
    assert len(reply.message.text) >= LEAST_REPETITION_CHARS
    assert len(model_server.requests) == 1


@pytest.mark.parametrize("text", [TABLE, ROWS, DRAWING], ids=["table", "rows", "drawing"])
async def test_long_table_in_a_reply_is_complete(ask: Ask, text: str) -> None:
    reply = await ask(ReplyScript(text=text, pieces=200), context_tokens=100_000)
    assert reply.finish_reason == "stop"
    assert reply.message.text.strip() == text.strip()


async def test_repetition_must_be_most_of_a_long_reply(ask: Ask) -> None:
    text = VARIED[:60_000] + ROWS * 2 + VARIED[60_000:]
    reply = await ask(ReplyScript(text=text, pieces=200), context_tokens=200_000)
    assert reply.message.text == text


async def test_call_that_writes_a_blank_grid_is_complete(
    ask: Ask, request: pytest.FixtureRequest
) -> None:
    arguments = {"command": "," * 60_000, "grid": GRID}
    if "text tools" in request.node.name:
        pytest.skip("calls written as text end like other text")
    script = ReplyScript(tool_calls=(Call("exec", arguments),), pieces=200)
    reply = await ask(script, context_tokens=200_000)
    (call,) = reply.message.tool_calls
    assert call.arguments == arguments


async def test_known_window_allows_longer_replies(ask: Ask) -> None:
    reply = await ask(ReplyScript(text=VARIED, pieces=200), context_tokens=100_000)
    assert reply.finish_reason == "stop"
    assert reply.message.text == VARIED


@pytest.mark.parametrize("text", [REPEATED, VARIED], ids=["repeated", "varied"])
async def test_endless_call_is_cut_and_has_no_arguments(
    ask: Ask, model_server: ModelServer, request: pytest.FixtureRequest, text: str
) -> None:
    if "ollama" in request.node.name:
        pytest.skip("Ollama sends each call as a whole")
    if "text tools" in request.node.name:
        script = endless(text=f'<tool name="exec">{{"command": "{text}')
    else:
        script = endless(tool_calls=(Call("exec", f'{{"command": "{text}'),))
    reply = await ask(script)
    assert reply.finish_reason in (REPEATING, "length")
    (call,) = reply.message.tool_calls
    assert (call.name, call.arguments) == ("exec", None)
    assert reply.message.text == ""
