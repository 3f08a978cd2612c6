"""Windows that local model servers state, and servers that break off when one is full."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from agent.errors import ContextTooLong, Unavailable
from agent.events import ModelEvent, Reply
from agent.providers.base import ModelRequest
from agent.providers.pool import ModelPool, OpenModel
from agent.providers.registry import ModelConfig
from agent.types import user
from kore import Agent
from tests.counterparts import each_counterpart
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Break, ReplyScript

LLAMA_CPP = {"/props": {"default_generation_settings": {"id": 0, "n_ctx": 4096}}}
LM_STUDIO = {
    "/api/v0/models": {
        "data": [
            {"id": "other", "state": "loaded", "loaded_context_length": 2048},
            {
                "id": "fake",
                "state": "loaded",
                "max_context_length": 131_072,
                "loaded_context_length": 4096,
            },
        ]
    }
}
OLLAMA = {"/api/show": {"model_info": {"general.file_type": 2, "llama.context_length": 4096}}}
# Server, model, answers by path, and fields in the list of models.
SERVERS: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "llama.cpp": ("llamacpp/fake", LLAMA_CPP, {"meta": {"n_ctx_train": 131_072}}),
    "vLLM": ("vllm/fake", {}, {"max_model_len": 4096}),
    "LM Studio": ("lmstudio/fake", LM_STUDIO, {}),
    "Ollama": ("ollama/fake", OLLAMA, {}),
}
SHORT = ModelRequest("fake", "Be brief.", (user("hi"),))
# About 2,500 and 5,000 tokens.
FITTING = ModelRequest("fake", "Be brief.", (user("word " * 2_000),))
LONG = ModelRequest("fake", "Be brief.", (user("word " * 4_000),))
Open = Callable[..., OpenModel]


@pytest.fixture
async def open_model(model_server: ModelServer) -> AsyncIterator[Open]:
    pools: list[ModelPool] = []

    async def sleep(seconds: float) -> None:
        return

    def open_model(model: str, **fields: Any) -> OpenModel:
        base = model_server.url if model.startswith("ollama") else model_server.base_url
        pools.append(ModelPool("m", [ModelConfig("m", model, api_base=base, **fields)]))
        pools[-1].sleep = sleep
        return pools[-1].open()

    yield open_model
    for pool in pools:
        await pool.aclose()


async def events_of(opened: OpenModel, request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in opened.provider.stream(request)]


@pytest.mark.parametrize("name", each_counterpart(SERVERS))
async def test_window_that_the_server_states_applies(
    name: str, open_model: Open, model_server: ModelServer
) -> None:
    model, model_server.facts, model_server.model_facts = SERVERS[name]
    opened = open_model(model)
    await events_of(opened, SHORT)
    assert opened.window_tokens > 4096
    await events_of(opened, FITTING)
    assert opened.window_tokens == 4096
    with pytest.raises(ContextTooLong, match="4,096 tokens"):
        await events_of(opened, LONG)
    assert len(model_server.requests) == 2


@pytest.mark.parametrize("name", each_counterpart(SERVERS))
async def test_configured_window_is_not_asked_for(
    name: str, open_model: Open, model_server: ModelServer
) -> None:
    model, model_server.facts, model_server.model_facts = SERVERS[name]
    opened = open_model(model, context_tokens=100_000)
    assert isinstance((await events_of(opened, LONG))[-1], Reply)
    assert opened.window_tokens == 100_000


@pytest.mark.counterpart("LM Studio")
async def test_model_that_is_not_loaded_yet_has_no_window(
    open_model: Open, model_server: ModelServer
) -> None:
    entry = {"id": "fake", "state": "not-loaded", "max_context_length": 4096}
    model_server.facts = {"/api/v0/models": {"data": [entry]}}
    opened = open_model("lmstudio/fake")
    assert isinstance((await events_of(opened, LONG))[-1], Reply)
    # The first request loads the model.
    model_server.facts = LM_STUDIO
    await events_of(opened, FITTING)
    assert opened.window_tokens == 4096
    with pytest.raises(ContextTooLong, match="4,096 tokens"):
        await events_of(opened, LONG)
    assert len(model_server.requests) == 2


@pytest.mark.counterpart("llama.cpp")
async def test_larger_window_applies_after_a_restart_of_the_server(
    open_model: Open, model_server: ModelServer
) -> None:
    model_server.facts = LLAMA_CPP
    opened = open_model("llamacpp/fake")
    with pytest.raises(ContextTooLong, match="4,096 tokens"):
        await events_of(opened, LONG)
    model_server.facts = {"/props": {"default_generation_settings": {"n_ctx": 8192}}}
    assert isinstance((await events_of(opened, LONG))[-1], Reply)
    assert opened.window_tokens == 8192


def break_long(raw: bytes) -> ReplyScript | None:
    """Break the connection for requests of more than 4,000 tokens."""
    return ReplyScript(breaks=Break("refuse")) if len(raw) > 16_000 else None


@pytest.mark.counterpart("LM Studio")
async def test_window_is_asked_for_again_when_the_server_breaks_off(
    open_model: Open, model_server: ModelServer
) -> None:
    opened = open_model("lmstudio/fake")
    await events_of(opened, FITTING)

    def break_and_load(raw: bytes) -> ReplyScript | None:
        model_server.facts = LM_STUDIO
        return break_long(raw)

    model_server.objects = break_and_load
    with pytest.raises(ContextTooLong, match="4,096 tokens"):
        await events_of(opened, LONG)
    assert len(model_server.requests) == 2


async def test_break_of_a_server_that_states_nothing_hints_at_its_window(
    open_model: Open, model_server: ModelServer
) -> None:
    opened = open_model("openai/fake")
    model_server.objects = break_long
    with pytest.raises(Unavailable) as caught:
        await events_of(opened, LONG)
    assert "context_tokens" in str(caught.value.hint)


async def test_turn_is_shortened_to_the_stated_window(
    open_model: Open, model_server: ModelServer
) -> None:
    model_server.facts = {"/props": {"default_generation_settings": {"n_ctx": 30_000}}}
    model_server.objects = lambda raw: (
        ReplyScript(breaks=Break("refuse")) if len(raw) > 150_000 else None
    )
    model = open_model("openai/fake")
    agent = Agent(model=model.provider)
    result = await agent.run("word " * 100_000)
    assert result.success
