"""Tools-only API: requests of a benchmark, and a model behind a socket."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI

from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript, refusal
from tests.gateway.cli.kore import ROOT

ADAPTER = ROOT / "evals" / "adapters" / "kore_tools_only.py"
BOOK = {
    "type": "function",
    "function": {
        "name": "flights.book",
        "description": "Book a flight.",
        "parameters": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "seats": {"type": "integer"}},
            "required": ["id"],
        },
    },
}
SYSTEM = {"role": "system", "content": "You sell flights."}


@asynccontextmanager
async def open_client(
    model: ModelServer, *, name: str = "openai/fake"
) -> AsyncIterator[AsyncOpenAI]:
    """Start the program and yield the client that benchmarks use."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, ADAPTER, "--model", name, "--port", "0"),
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "sk-secret-key-1",
        },
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        async with AsyncOpenAI(base_url=address, api_key="none", max_retries=0) as client:
            yield client
    finally:
        process.terminate()
        await process.wait()


async def ask(client: AsyncOpenAI, messages: list[Any], **more: Any) -> Any:
    return await client.chat.completions.create(model="any", messages=messages, **more)


async def test_benchmark_conversation_completes(model_server: ModelServer) -> None:
    model_server.script(
        ReplyScript(
            text="One moment.",
            tool_calls=(
                Call("flights_book", {"id": "A1", "seats": "2"}),
                Call("flights_book", {"id": "B2"}),
            ),
        ),
        ReplyScript(text="Both are booked."),
        ReplyScript(text="You are welcome."),
    )
    async with open_client(model_server) as client:
        messages: list[Any] = [SYSTEM, {"role": "user", "content": "Book A1 for two, and B2."}]
        reply = await ask(client, messages, tools=[BOOK], temperature=0, tool_choice="auto")
        choice = reply.choices[0]
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", "One moment.")
        result, two = choice.message.tool_calls
        # The name from the benchmark, and a number where the model wrote text.
        assert (result.function.name, two.function.name) == ("flights.book", "flights.book")
        assert json.loads(result.function.arguments) == {"id": "A1", "seats": 2}
        assert reply.usage.prompt_tokens > 0
        messages.append(choice.message.model_dump(exclude_none=True))
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": f"booked {n}"}
            for n, call in enumerate((result, two))
        ]
        reply = await ask(client, messages, tools=[BOOK], temperature=0)
        assert reply.choices[0].message.content == "Both are booked."
        assert reply.choices[0].finish_reason == "stop"
        messages += [
            {"role": "assistant", "content": "Both are booked."},
            {"role": "user", "content": [{"type": "text", "text": "Thanks."}]},
        ]
        reply = await ask(client, messages, tools=[BOOK], temperature=0)
        assert reply.choices[0].message.content == "You are welcome."
    bodies = [request.body for request in model_server.requests]
    assert bodies[0]["messages"] == messages[:2]
    assert bodies[0]["temperature"] == 0
    assert [tool["function"]["name"] for tool in bodies[0]["tools"]] == ["flights_book"]
    # Each request starts with the previous one, byte for byte.
    for before, body in pairwise(bodies):
        assert body["messages"][: len(before["messages"])] == before["messages"]
    results = [message["content"] for message in bodies[1]["messages"] if message["role"] == "tool"]
    assert results == ["booked 0", "booked 1"]


async def test_rejections_have_the_status_of_their_kind(model_server: ModelServer) -> None:
    model_server.script(
        refusal(401, "sk-secret-key-1 is wrong"),
        ReplyScript(text="Yes."),
    )
    async with open_client(model_server) as client:
        question = [{"role": "user", "content": "Well?"}]
        with pytest.raises(APIStatusError) as refused:
            await ask(client, question)
        assert refused.value.status_code == 400
        assert "sk-secret" not in str(refused.value)
        unanswered = [*question, {"role": "assistant", "content": "", "tool_calls": []}]
        for wrong in ([], unanswered, [{"role": "robot", "content": "x"}]):
            with pytest.raises(APIStatusError) as refused:
                await ask(client, wrong)
            assert refused.value.status_code == 400
        with pytest.raises(APIStatusError, match="expected a schema"):
            await ask(client, question, tools=[{"type": "function", "function": {}}])
        # None of these requests has reached the model, which still answers.
        assert (await ask(client, question)).choices[0].message.content == "Yes."
    assert len(model_server.requests) == 2


async def test_unusable_model_ends_the_benchmark_at_once(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, ADAPTER, "--model", "nobody/nothing", "--port", "0"),
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert process.returncode == 2
    assert b"nobody" in err
