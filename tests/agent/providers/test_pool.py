"""Models of an agent by name and by purpose."""

from pathlib import Path

import pytest

from agent import events
from agent.agent import Agent
from agent.errors import ConfigError
from agent.providers.base import ModelRequest
from agent.providers.pool import ModelPool
from agent.providers.registry import PROFILES, ModelConfig
from agent.providers.scripted import ScriptedProvider
from agent.types import user
from tests.agent.props import run_turn, task
from tests.fakes.model import ModelServer
from tests.fakes.model_script import refusal

LOCAL = ModelConfig("local", "ollama/llama3.2")


def test_default_model_serves_every_missing_profile() -> None:
    models = ModelPool("local", [LOCAL], profiles={"quick": "default"})
    assert {models.profile(name) for name in PROFILES} == {"local"}


def test_profile_selects_its_model() -> None:
    models = ModelPool("offline/echo", [LOCAL], profiles={"quick": "local", "task": "ollama/other"})
    assert (models.profile("quick"), models.profile("task")) == ("local", "ollama/other")
    assert models.open(models.profile("quick")).model == "llama3.2"


@pytest.mark.parametrize("wanted", ["nobody", "openai/gpt-5", "entry"])
def test_unusable_profile_falls_back_to_the_default_with_one_notice(wanted: str) -> None:
    entry = ModelConfig("entry", "openai/gpt-5", api_key="${UNSET}")
    models = ModelPool("offline/echo", [entry], profiles={"quick": wanted})
    assert [models.profile("quick"), models.profile("quick")] == ["offline/echo"] * 2
    (notice,) = models.take_notices()
    assert "'quick'" in notice
    assert "offline/echo" in notice
    assert wanted in notice
    assert models.take_notices() == []


def test_profile_name_resolves_to_its_model() -> None:
    models = ModelPool("offline/echo", [LOCAL], profiles={"quick": "local"})
    assert models.check("quick").model == "ollama/llama3.2"
    assert models.open("quick").model == "llama3.2"
    assert models.open("reasoning").provider.name == "offline"


def test_model_named_like_a_profile_wins() -> None:
    named = ModelConfig("quick", "ollama/named")
    assert (
        ModelPool("x/y", [LOCAL, named], profiles={"quick": "local"}).open("quick").model == "named"
    )


def test_unknown_name_is_an_error() -> None:
    with pytest.raises(ConfigError, match="unknown model 'fast'"):
        ModelPool("offline/echo", [LOCAL]).open("fast")


async def test_custom_provider_serves_every_profile(tmp_path: Path) -> None:
    model = ScriptedProvider(["hello"])
    agent = Agent(model, workspace=tmp_path)
    assert agent.models.open(agent.models.profile("quick")) is agent.models.open()
    assert (await agent.run("hi")).text == "hello"


async def test_turn_reports_an_unusable_profile(tmp_path: Path) -> None:
    models = ModelPool("offline/echo", profiles={"quick": "nobody"})
    agent = Agent(models, workspace=tmp_path)
    models.profile("quick")
    seen = [(await run_turn(agent, task(agent)))[0] for _ in range(2)]
    results = [[e.text for e in item if isinstance(e, events.Notice)] for item in seen]
    assert len(results[0]) == 1
    assert "'quick'" in results[0][0]
    assert results[1] == []


async def test_configured_window_only_lowers_the_window_of_the_model() -> None:
    environ = {"OPENAI_API_KEY": "k"}
    for cap, tokens in ((None, 1_047_576), (64_000, 64_000), (2_000_000, 1_047_576)):
        models = ModelPool("openai/gpt-4.1", environ=environ, window=cap)
        assert models.open().window_tokens == tokens
        await models.aclose()


async def test_adaptations_are_shared_by_keys_and_entries_of_a_server(
    model_server: ModelServer,
) -> None:
    model_server.objects = lambda raw: refusal(400, "no") if b"stream_options" in raw else None
    address = model_server.base_url
    entries = [
        ModelConfig("two keys", "openai/fake", address, api_keys=("a", "b"), api="chat"),
        ModelConfig("one key", "openai/fake", address, api_keys=("c",), api="chat"),
    ]
    models = ModelPool("two keys", entries)
    for name in ("two keys", "one key"):
        opened = models.open(name)
        request = ModelRequest(opened.model, "", (user("hi"),))
        assert [event async for event in opened.provider.stream(request)]
    assert len(model_server.requests) == 3
    await models.aclose()
