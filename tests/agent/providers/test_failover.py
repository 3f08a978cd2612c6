"""Failover between keys and models, with a real server and a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from agent.errors import KeyRefused, ProviderError, RateLimited
from agent.events import Notice, Reply, Retry
from agent.providers.base import ModelRequest
from agent.providers.cooldown import Cooldowns
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.types import user
from tests.fakes.model import ModelServer
from tests.fakes.model_script import ReplyScript, refusal

Answers = Callable[[str, str], ReplyScript]


class World:
    """A server whose answer depends on key and model, a clock, and pools of models."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.now = 1000.0
        self.made: list[ModelPool] = []
        self.refused: dict[tuple[str, str], ReplyScript] = {}
        server.mind = self._mind

    def _mind(self, body: Mapping[str, Any]) -> ReplyScript:
        key = self.server.requests[-1].headers["Authorization"].removeprefix("Bearer ")
        model = body["model"]
        return self.refused.get((key, model), ReplyScript(text=f"{model} by {key}"))

    def models(self, keys: tuple[str, ...] = ("k1", "k2"), *, spare: bool = True) -> ModelPool:
        base = self.server.base_url
        known = [
            ModelConfig("big", "openai/big", api_base=base, api_keys=keys),
            ModelConfig("small", "openai/small", api_base=base, api_key="other"),
        ]
        cooldowns = Cooldowns(lambda: self.now)
        made = ModelPool(
            "big", known, ["small"] if spare else [], cooldowns=cooldowns, sleep=self.sleep
        )
        self.made.append(made)
        return made

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def models_called(self) -> list[str]:
        """Return the requests since the previous call, as key/model."""
        seen = [f"{item.headers['Authorization'][7:]}/{item.body['model']}" for item in self.new()]
        self._looked = len(self.server.requests)
        return seen

    _looked = 0

    def new(self) -> list[Any]:
        return self.server.requests[self._looked :]


@pytest.fixture
async def world(model_server: ModelServer) -> AsyncIterator[World]:
    world = World(model_server)
    yield world
    for models in world.made:
        await models.aclose()


async def answer(models: ModelPool, name: str = "big") -> tuple[str, list[object]]:
    """Return the text of the reply, and all events."""
    opened = models.open(name)
    request = ModelRequest(opened.model, "", (user("hi"),))
    seen: list[object] = [event async for event in opened.provider.stream(request)]
    assert isinstance(seen[-1], Reply)
    return seen[-1].message.text, seen


SLOW_DOWN = refusal(429, "slow down")
DOWN = refusal(503, "overloaded")


async def test_rate_limit_switches_to_another_key_of_the_same_model(
    world: World,
) -> None:
    models = world.models()
    world.refused["k1", "big"] = refusal(429, "slow down", retry_after="50")
    text, seen = await answer(models)
    assert text == "big by k2"
    assert world.models_called() == ["k1/big", "k2/big"]
    assert world.now == 1000
    assert any(isinstance(event, Retry) for event in seen)


async def test_rate_limited_key_is_probed_once_after_its_cooldown(
    world: World,
) -> None:
    models = world.models()
    world.refused["k1", "big"] = refusal(429, "slow down", retry_after="50")
    await answer(models)
    del world.refused["k1", "big"]
    world.models_called()
    world.now += 49
    await answer(models)
    assert world.models_called() == ["k2/big"]
    world.now += 1
    world.server.latency_s = 0.2
    texts = await asyncio.gather(*(answer(models) for _ in range(4)))
    assert sorted(text for text, _ in texts) == ["big by k1", *["big by k2"] * 3]
    await answer(models)
    assert world.models_called()[-1] == "k1/big"


async def test_failed_probe_doubles_the_cooldown(world: World) -> None:
    models = world.models()
    world.refused["k1", "big"] = SLOW_DOWN
    await answer(models)
    world.now += 30
    world.models_called()
    await answer(models)
    assert world.models_called() == ["k1/big", "k2/big"]
    world.now += 59
    await answer(models)
    assert world.models_called() == ["k2/big"]
    world.now += 1
    await answer(models)
    assert world.models_called() == ["k1/big", "k2/big"]


async def test_cancelled_probe_leaves_the_next_request_to_probe(world: World) -> None:
    models = world.models()
    world.refused["k1", "big"] = SLOW_DOWN
    await answer(models)
    world.now += 30
    del world.refused["k1", "big"]
    world.models_called()
    world.server.latency_s = 30
    probe = asyncio.create_task(answer(models))
    while not world.new():
        await world.server.news(10)
    probe.cancel()
    await asyncio.wait({probe})
    world.server.latency_s = 0
    assert (await answer(models))[0] == "big by k1"


async def test_outage_switches_to_another_model_without_wider_cooldown(world: World) -> None:
    models = world.models()
    world.refused["k1", "big"] = world.refused["k2", "big"] = DOWN
    text, seen = await answer(models)
    assert text == "small by other"
    assert world.models_called() == ["k1/big"] * 3 + ["other/small"]
    (notice,) = [event for event in seen if isinstance(event, Notice)]
    assert "openai/big failed, trying openai/small" in notice.text
    # The same keys work for another model of that vendor: a cooldown covers only (key, model).
    models.known = [*models.known, ModelConfig("third", "openai/third", world.server.base_url,
                                               api_keys=("k1", "k2"))]  # fmt: skip
    assert (await answer(models, "third"))[0] == "third by k1"


async def test_cooling_model_is_skipped_and_comes_back(world: World) -> None:
    models = world.models()
    world.refused["k1", "big"] = world.refused["k2", "big"] = DOWN
    await answer(models)
    world.models_called()
    text, seen = await answer(models)
    assert (text, world.models_called()) == ("small by other", ["other/small"])
    retry, notice = seen[:2]
    assert isinstance(retry, Retry)
    assert retry.rank == 1
    assert isinstance(notice, Notice)
    assert "openai/big is cooling down, trying openai/small" in notice.text
    world.refused.clear()
    world.now += 30
    assert (await answer(models))[0] == "big by k1"


@pytest.mark.parametrize("status", [401, 402])
async def test_rejected_key_cools_down_for_every_model(world: World, status: int) -> None:
    models = world.models()
    models.known = [*models.known, ModelConfig("third", "openai/third", world.server.base_url,
                                               api_keys=("k1", "k2"))]  # fmt: skip
    world.refused["k1", "big"] = refusal(status, "no")
    text, seen = await answer(models)
    assert text == "big by k2"
    assert any(isinstance(event, Notice) and "another key" in event.text for event in seen)
    world.models_called()
    assert (await answer(models, "third"))[0] == "third by k2"
    assert world.models_called() == ["k2/third"]


async def test_key_without_access_to_a_model_cools_down_for_that_model_only(world: World) -> None:
    models = world.models(("k1",))
    models.known = [*models.known, ModelConfig("third", "openai/third", world.server.base_url,
                                               api_key="k1")]  # fmt: skip
    world.refused["k1", "big"] = refusal(403, "not this one")
    assert (await answer(models))[0] == "small by other"
    assert (await answer(models, "third"))[0] == "third by k1"


async def test_short_limit_is_awaited_before_a_fallback(world: World) -> None:
    models = world.models(("k1",))
    world.server.script(refusal(429, "slow down", retry_after="3"))
    text, _ = await answer(models)
    assert text == "big by k1"
    assert 1003 <= world.now <= 1004


async def test_limit_without_a_fallback_is_raised_with_a_hint(world: World) -> None:
    models = world.models(("k1",), spare=False)
    world.refused["k1", "big"] = refusal(429, "slow down", retry_after="300")
    with pytest.raises(RateLimited):
        await answer(models)
    world.models_called()
    world.now += 200
    with pytest.raises(RateLimited, match="retry in 2 minutes") as caught:
        await answer(models)
    assert "/model" in str(caught.value.hint)
    assert world.models_called() == []


async def test_long_limit_is_raised_and_probed_before_its_end(world: World) -> None:
    """A user who tops up the account need not wait for the end of the hour."""
    models = world.models(("k1",), spare=False)
    world.refused["k1", "big"] = refusal(429, "slow down", retry_after="3600")
    with pytest.raises(RateLimited, match="\\(for 60 minutes; retry in 5 minutes\\)"):
        await answer(models)
    world.models_called()
    world.now += 210
    with pytest.raises(RateLimited, match="\\(for 57 minutes; retry in 90 seconds\\)"):
        await answer(models)
    assert world.models_called() == []
    world.now += 90
    with pytest.raises(RateLimited):
        await answer(models)
    assert world.models_called() == ["k1/big"]
    world.refused.clear()
    world.now += 300
    assert (await answer(models))[0] == "big by k1"


async def test_choosing_a_model_ends_its_cooldown(world: World) -> None:
    models = world.models(("k1",), spare=False)
    world.refused["k1", "big"] = refusal(429, "slow down", retry_after="3600")
    with pytest.raises(RateLimited):
        await answer(models)
    world.refused.clear()
    models.expire_cooldowns("big")
    assert (await answer(models))[0] == "big by k1"


async def test_concurrent_requests_share_one_probe(world: World) -> None:
    models = world.models(("k1",))
    models.fallbacks = ["small", "third"]
    models.known = [*models.known, ModelConfig("third", "openai/third", world.server.base_url,
                                               api_key="k3")]  # fmt: skip
    world.refused["k1", "big"] = refusal(429, "slow down", retry_after="300")
    world.refused["other", "small"] = SLOW_DOWN
    await answer(models)
    world.now += 30
    del world.refused["other", "small"]
    world.models_called()
    first = models.open("big")
    stream = first.provider.stream(ModelRequest(first.model, "", (user("hi"),)))
    delta = await anext(aiter(stream))
    assert isinstance(delta, Retry)
    assert (await answer(models))[0] == "third by k3"
    assert "other/small" not in world.models_called()
    async for _ in stream:
        pass
    assert world.models_called() == ["other/small"]


@pytest.mark.parametrize(("status", "kind"), [(503, ProviderError), (401, KeyRefused)])
async def test_temporary_error_without_a_fallback_is_retried(
    world: World, status: int, kind: type[ProviderError]
) -> None:
    models = world.models(("k1",), spare=False)
    world.refused["k1", "big"] = refusal(status, "no")
    with pytest.raises(kind):
        await answer(models)
    world.refused.clear()
    assert (await answer(models))[0] == "big by k1"


async def test_fallbacks_are_tried_in_order_and_the_last_error_is_raised(world: World) -> None:
    models = world.models(("k1",))
    models.fallbacks = ["small", "third"]
    models.known = [*models.known, ModelConfig("third", "openai/third", world.server.base_url,
                                               api_key="k3")]  # fmt: skip
    world.refused["k1", "big"] = world.refused["other", "small"] = refusal(404, "no such model")
    text, seen = await answer(models)
    assert text == "third by k3"
    assert [event.rank for event in seen if isinstance(event, Retry | Reply)] == [1, 2, 2]
    world.refused["k3", "third"] = refusal(401, "bad key")
    with pytest.raises(KeyRefused):
        await answer(models)


async def test_keys_are_not_in_the_repr(world: World) -> None:
    models = world.models()
    models.open()
    assert "k1" not in repr(models)
