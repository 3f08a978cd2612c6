"""Turns read so late that their text is already on disk and no longer streamed."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import pytest

from agent.types import assistant
from gateway.server.openai_api.agent_answer import AgentAnswer, AgentOrder
from gateway.server.openai_api.answer_stream import write_turn
from gateway.server.openai_api.chat_writer import ChatWriter
from gateway.server.openai_api.request_sessions import MessagePlace
from gateway.server.openai_api.response_writer import ResponseWriter
from gateway.server.speaker import Speaker
from gateway.server.tokens import AccessToken
from tests.gateway.parts import Parts, running, tool_call

T = TypeVar("T")


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    script = [assistant("I try.", (tool_call("1", "exec", command="touch x"),)), "done"]
    async with running(tmp_path, script) as parts:
        yield parts


async def turn_of(parts: Parts) -> AgentAnswer:
    session = await parts.service.create_session()
    place = MessagePlace(session, "event", is_new=True, is_kept=False)
    token = AccessToken("phone", frozenset({"chat"}), 0.0)
    return AgentAnswer(Speaker(parts.service, token), AgentOrder(place, "do"))


async def read_late(parts: Parts, steps: AsyncGenerator[T, None]) -> AsyncIterator[T]:
    """Read each step only when all lanes are idle: the turn waits for an answer or is over."""
    async with aclosing(steps):
        async for step in steps:
            while (await parts.service.status())["lanes_busy"]:
                await parts.transaction_ends()
            yield step


async def test_late_reader_gets_a_complete_response(parts: Parts) -> None:
    writer = ResponseWriter({}, "kore", "resp_1")
    async for _ in read_late(parts, write_turn(await turn_of(parts), writer, "phone")):
        pass
    kinds = [item["type"] for item in writer.output]
    assert (kinds[0], "kore:approval" in kinds) == ("message", True)
    texts = [part["text"] for item in writer.output for part in item.get("content", ())]
    assert texts[:2] == ["I try.", "done"]
    assert len(texts) == 3


async def test_late_reader_gets_streamed_text_once(parts: Parts) -> None:
    writer = ChatWriter("kore", "chatcmpl-1", 0.0)
    async for _ in read_late(parts, write_turn(await turn_of(parts), writer, "phone")):
        pass
    assert writer.text.startswith("I try.\n\ndone\n\n")
    deltas = [chunk["choices"][0]["delta"] for chunk in writer.take()]
    assert "".join(delta.get("content", "") for delta in deltas) == writer.text
