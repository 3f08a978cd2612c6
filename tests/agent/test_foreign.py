"""Robustness against third-party models, tools and programs."""

import asyncio
import gc
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent import events
from agent.agent import Agent
from agent.context.history_validation import is_valid, with_unique_call_ids
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.run.history import MemoryHistory
from agent.tools.base import CallContext
from agent.tools.registry import ToolRegistry
from agent.types import Message, ToolCall, ToolResult, assistant, user
from tests.agent.props import (
    Handmade,
    answers,
    call,
    calls,
    results,
    run_turn,
    scripted,
    task,
)
from tests.agent.turn.speaker import Speaker
from tests.fakes.model import ModelServer


async def test_filtered_answer_is_reported_as_failure(tmp_path: Path) -> None:
    cut = events.Reply(assistant("It begins", (call("note"),)), None, "content_filter")
    ran: list[str] = []

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        ran.append("note")
        return ToolResult("noted")

    agent = Agent(Speaker(cut), workspace=tmp_path, tools=[Handmade("note", body)])
    _, result = await run_turn(agent, task(agent))
    assert (result.success, result.stopped, ran) == (False, "filtered", [])
    assert result.text.startswith("It begins\n\n")
    assert "content filter" in result.text
    assert is_valid([user("go"), *result.messages])


async def test_calls_with_the_same_id_keep_their_own_results(tmp_path: Path) -> None:
    twice = calls(call("note", "c1", n=1), call("note", "c1", n=2), call("note", "c1_2", n=3))

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        return ToolResult(f"result {args['n']}")

    agent, model = scripted([twice, "done"], tmp_path, Handmade("note", body))
    await run_turn(agent, task(agent))
    sent = model.requests[1].messages
    assert is_valid(sent)
    assert results(sent) == ["result 1", "result 2", "result 3"]


def test_reply_with_unique_ids_is_unchanged() -> None:
    message = calls(call("note", "a"), call("note", "b"))
    assert with_unique_call_ids(message) is message
    ids = [
        c.id
        for c in with_unique_call_ids(calls(*(ToolCall("a", "note", {}, "{}"),) * 3)).tool_calls
    ]
    assert ids == ["a", "a_2", "a_3"]


@pytest.mark.parametrize("where", ["thread", "coroutine", "plan"])
async def test_sys_exit_in_a_tool_is_a_tool_failure(tmp_path: Path, where: str) -> None:
    async def leaves(*_: object) -> ToolResult:
        if where == "thread":
            await asyncio.to_thread(sys.exit, 3)
        sys.exit(3)

    tool = Handmade("note", leaves)
    if where == "plan":
        tool.plan = leaves  # type: ignore[attr-defined]
    agent, model = scripted([calls(call("note")), "done"], tmp_path, tool)
    _, result = await run_turn(agent, task(agent))
    assert result.text == "done"
    assert "sys.exit(3)" in results(model.requests[1].messages)[0]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_agent_works_in_several_loops_in_turn_and_concurrently(
    tmp_path: Path,
) -> None:
    address = ""
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        nonlocal address
        async with ModelServer() as server:
            address = server.base_url
            ready.set()
            await asyncio.to_thread(over.wait)

    serving = threading.Thread(target=asyncio.run, args=(serve(),))
    serving.start()
    ready.wait()
    try:
        before = _open_sessions()
        for transport in ("aiohttp", "sdk"):
            config = ModelConfig("m", "openai/x", address, "k", transport=transport)  # type: ignore[arg-type]
            agent = Agent(ModelPool("m", [config]), workspace=tmp_path)
            texts = [asyncio.run(agent.run(f"{n}")).text for n in range(2)]
            assert texts == ["echo: 0", "echo: 1"]
            assert _side_by_side(agent) == ["echo: again"] * 2
            # The sessions of past loops are dropped; one of them may still await the next request.
            assert _open_sessions() <= before + 3, transport
            asyncio.run(agent.aclose())
            # A loop that has ended can no longer close its connections, so Python does and warns.
            assert _open_sessions() == before, transport
    finally:
        over.set()
        serving.join()


def _open_sessions() -> int:
    gc.collect()
    return sum(isinstance(item, aiohttp.ClientSession) for item in gc.get_objects())


def _side_by_side(agent: Agent) -> list[str]:
    """Return the answers in two threads, each with its own event loop."""
    # If one thread fails, the other must not wait forever.
    together = threading.Barrier(2, timeout=20)

    async def ask() -> str:
        await agent.run("first")
        await asyncio.to_thread(together.wait)
        return (await agent.run("again")).text

    with ThreadPoolExecutor(2) as pool:
        return [item.result() for item in [pool.submit(lambda: asyncio.run(ask())) for _ in "ab"]]


_TWICE = """
import asyncio, sys
import kore
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig

agent = kore.Agent(ModelPool("m", [ModelConfig("m", "openai/x", sys.argv[1], "k")]))
for n in range(2):
    print(asyncio.run(agent.run(str(n))).text)
asyncio.run(agent.aclose())
"""


async def test_closed_loop_causes_no_warning(tmp_path: Path, model_server: ModelServer) -> None:
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-X", "dev", "-c", _TWICE, model_server.base_url],
        cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert ran.stdout == "echo: 0\necho: 1\n"
    assert "Unclosed" not in ran.stderr


async def test_invalid_tool_names_are_mapped_and_restored(
    tmp_path: Path,
) -> None:
    odd = ["database.query", "database query", "datenbank.größe", "a" * 80, "a" * 81, "."]
    box = ToolRegistry([answers(name) for name in ("database_query", *odd)])
    sent = [spec.name for spec in box.specs()]
    assert len(set(sent)) == len(sent)
    assert sent[0] == "database_query"
    for name, wire in zip(("database_query", *odd), sent, strict=True):
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wire)
        tool = box.find(wire)
        assert tool is not None
        assert tool.name == name
    assert sent == [
        spec.name for spec in ToolRegistry([*map(answers, ("database_query", *odd))]).specs()
    ]


async def test_tool_with_an_odd_name_is_called_over_the_wire(
    tmp_path: Path,
) -> None:
    agent, model = scripted(
        [calls(call("database_query")), "done"], tmp_path, answers("database.query")
    )
    await run_turn(agent, task(agent))
    assert "database_query" in [spec.name for spec in model.requests[0].tools]
    assert "There is no tool" not in results(model.requests[1].messages)[0]


async def test_agent_is_closed_by_its_context_manager(tmp_path: Path) -> None:
    agent, model = scripted(["hi"], tmp_path)
    async with agent as same:
        assert (await same.run("x")).text == "hi"
    assert model.closed


async def test_custom_history_may_return_any_sequence(tmp_path: Path) -> None:
    class Tuples:
        def __init__(self) -> None:
            self.stored_messages: tuple[Message, ...] = ()

        async def load(self, session: str) -> tuple[Message, ...]:
            return self.stored_messages

        async def append(self, session: str, messages: Sequence[Message]) -> None:
            self.stored_messages += tuple(messages)

    agent, model = scripted(["one", "two"], tmp_path, history=Tuples())
    await agent.run("a", session="s")
    await agent.run("b", session="s")
    assert len(model.requests[1].messages) == 3
    assert isinstance(await MemoryHistory().load("s"), list)
