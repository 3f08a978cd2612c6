"""Dependencies of a program's tools, initial messages and concurrent runs."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kore
from agent.errors import ConfigError
from agent.providers.base import ModelRequest
from agent.providers.scripted import ScriptedProvider, reply_events
from agent.types import assistant, user
from tests.agent.props import call, calls


@dataclass
class Shop:
    prices: dict[str, int]


@kore.tool
def price(run: kore.RunContext[Shop], article: str) -> str:
    """Tell the price of an article."""
    return f"{run.deps.prices[article]} EUR, asked in {run.session} by {run.agent}"


@kore.tool
async def both(run: kore.RunContext[Shop], here: kore.CallContext) -> str:
    """Tell where this is."""
    return f"{run.workspace == here.workspace} {here.call.name}"


async def test_tool_receives_the_dependencies_of_its_run(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("price", article="tea")), "done"] * 2)
    agent = kore.Agent(model, workspace=tmp_path, tools=[price], deps_type=Shop)
    first = await agent.run("tea?", session="a", deps=Shop({"tea": 3}))
    second = await agent.run("tea?", session="b", deps=Shop({"tea": 4}))
    texts = [item.messages[1].text for item in (first, second)]
    assert texts == ["3 EUR, asked in a by main", "4 EUR, asked in b by main"]
    (spec,) = [tool for tool in model.requests[0].tools if tool.name == "price"]
    assert list(spec.parameters["properties"]) == ["article"]


async def test_tool_may_request_the_run_and_the_call(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("both")), "done"])
    result = await kore.run("?", model=model, workspace=tmp_path, tools=[both], deps=Shop({}))
    assert result.messages[1].text == "True both"


@pytest.mark.parametrize("deps", [None, "no shop"])
async def test_dependencies_of_another_type_are_rejected(tmp_path: Path, deps: Any) -> None:
    model = ScriptedProvider([])
    with pytest.raises(ConfigError, match=r"price needs deps= of the type Shop"):
        await kore.run("?", model=model, workspace=tmp_path, tools=[price], deps=deps)
    agent = kore.Agent(model, workspace=tmp_path, deps_type=Shop)
    with pytest.raises(ConfigError, match="deps: expected Shop"):
        await agent.run("?", deps=deps)
    assert model.requests == []


async def test_conversation_begins_with_initial_messages(tmp_path: Path) -> None:
    model = ScriptedProvider(["Ada.", "Still Ada."])
    agent = kore.Agent(model, workspace=tmp_path)
    begin = [user("I am Ada."), assistant("Hello, Ada.")]
    await agent.run("Who am I?", session="s", initial_messages=begin)
    await agent.run("And now?", session="s", initial_messages=begin)
    first, second = ([message.text for message in request.messages] for request in model.requests)
    assert first == ["I am Ada.", "Hello, Ada.", "Who am I?"]
    assert second == [*first, "Ada.", "And now?"]


@pytest.mark.parametrize("begin", [[calls(call("price"))], [kore.Message("system")]])
async def test_invalid_initial_messages_are_rejected(tmp_path: Path, begin: Any) -> None:
    with pytest.raises(ConfigError, match="initial_messages"):
        await kore.run("?", model=ScriptedProvider([]), workspace=tmp_path, initial_messages=begin)


class Opaque:
    """A value that JSON cannot represent."""


class Crowd:
    """Echoes the prompt, each time after `together` requests have arrived; fails at "no"."""

    name = "crowd"

    def __init__(self, together: int) -> None:
        self.barrier = asyncio.Barrier(together)
        self.most = self.now = 0

    async def stream(self, request: ModelRequest) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.barrier.wait()
        self.now -= 1
        text = request.messages[-1].text
        if text == "no":
            raise kore.ConfigError("no")
        for event in reply_events(request, assistant(text)):
            yield event


async def test_parallel_runs_keep_order_limit_and_errors_apart(tmp_path: Path) -> None:
    model = Crowd(2)
    prompts = ["a", "no", "c", "d", "no", "f"]
    done = await kore.parallel(prompts, model=model, workspace=tmp_path, limit=2)
    assert [result and result.text for result in done.results] == ["a", None, "c", "d", None, "f"]
    assert sorted(done.errors) == [1, 4]
    assert model.most == 2
    assert done.usage.output == sum(result.usage.output for result in done.results if result)
    assert len({result.session_id for result in done.results if result}) == 4
    with pytest.raises(kore.ConfigError):
        done.all()


async def test_inputs_are_consumed_lazily(tmp_path: Path) -> None:
    numbers: list[int] = []

    def prompts() -> Iterator[str]:
        for n in range(3):
            numbers.append(n)
            yield str(n)

    def look(n: int) -> Callable[[ModelRequest], kore.Message]:
        def answer(request: ModelRequest) -> kore.Message:
            seen.append(len(numbers))
            return assistant(str(n))

        return answer

    seen: list[int] = []
    agent = kore.Agent(ScriptedProvider([look(n) for n in range(3)]), workspace=tmp_path)
    done = await agent.parallel(prompts(), limit=1)
    assert [item.text for item in done.all()] == ["0", "1", "2"]
    assert seen == [1, 2, 3]


async def test_bug_in_the_program_ends_all_runs(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        await kore.parallel(
            ["a", "b"], model=ScriptedProvider([]), workspace=tmp_path, output_type=Opaque
        )


@pytest.mark.parametrize("options", [{"limit": 0}, {"session": "one"}])
async def test_parallel_rejects_options_of_a_single_run(tmp_path: Path, options: Any) -> None:
    with pytest.raises(ConfigError):
        await kore.parallel(["a"], model=ScriptedProvider(["a"]), workspace=tmp_path, **options)
