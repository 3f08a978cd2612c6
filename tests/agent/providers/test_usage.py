"""Costs of calls, and limits that stop the next call before it starts."""

import tomllib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent import events
from agent.agent import Agent
from agent.context.call_meter import CallMeter
from agent.errors import LimitReached, Unavailable
from agent.providers.base import ModelRequest
from agent.providers.effort import EFFORTS
from agent.providers.model_facts import TABLE
from agent.providers.model_settings import ModelSettings
from agent.providers.pricing import listed_price, tariff_of
from agent.providers.registry import ModelConfig
from agent.providers.retry import ModelCandidate, RetryingProvider
from agent.providers.scripted import ScriptedProvider
from agent.providers.usage import (
    NUSD_PER_USD,
    Charge,
    InMemoryMeter,
    Price,
    Receipt,
    Tariff,
    UsageTotals,
    dollars,
    pico,
)
from agent.providers.vendors import VENDORS
from agent.types import Usage, assistant
from tests.agent.props import answers, call, calls, run_turn, scripted, task

MILLION = 1_000_000


def price(input_: float, output: float, cached: float | None = None) -> Price:
    return Price(pico(input_), pico(output), None if cached is None else pico(cached))


@pytest.mark.parametrize(
    ("usage", "cost_nusd"),
    [
        (Usage(MILLION, 0), 2 * NUSD_PER_USD),
        (Usage(0, MILLION), 8 * NUSD_PER_USD),
        (Usage(MILLION, 0, MILLION), NUSD_PER_USD // 2),
        (Usage(1, 1), 10_000),
        (Usage(), 0),
    ],
)
def test_cost_is_exact(usage: Usage, cost_nusd: int) -> None:
    assert price(2, 8, 0.5).cost(usage) == cost_nusd


def test_fraction_of_a_nano_dollar_is_rounded_up() -> None:
    assert price(0.0375, 0).cost(Usage(1)) == 38


def test_million_small_charges_do_not_drift() -> None:
    charge = Tariff("v/m", price(0.1, 0.3)).charge(Usage(1, 1))
    spent = UsageTotals()
    for _ in range(10_000):
        spent = spent.plus(charge)
    assert spent.cost_nusd == 10_000 * 400
    assert spent.cost_usd == 0.004


def test_cached_input_costs_the_input_price_by_default() -> None:
    assert price(2, 8).cost(Usage(10, 0, 10)) == price(2, 8).cost(Usage(10, 0, 0))


def test_long_request_has_its_own_price_or_none() -> None:
    listed = listed_price("gemini", "gemini-2.5-pro")
    assert listed is not None
    assert listed.cost(Usage(200_000)) == NUSD_PER_USD // 4
    assert listed.cost(Usage(400_000)) == NUSD_PER_USD
    assert replace(listed, long=None).cost(Usage(400_000)) is None


def test_dated_snapshots_have_a_price_and_similar_names_do_not() -> None:
    assert listed_price("openai", "gpt-5-mini-2025-08-07") == listed_price("openai", "gpt-5-mini")
    assert listed_price("anthropic", "claude-haiku-4-5-20251001") == price(1, 5, 0.1)
    for model in ("gpt-5-mini-high", "gpt-5-miniature", "gpt", ""):
        assert listed_price("openai", model) is None
    assert listed_price("nobody", "gpt-5") is None
    assert listed_price("written", "gpt-5") is None


def test_listed_prices_are_plausible_and_of_known_vendors() -> None:
    from agent.providers.pricing import _price

    table = tomllib.loads(TABLE.read_text("utf-8"))
    assert table.pop("written").year >= 2026
    assert set(table) - set(VENDORS) == {"offline"}
    for vendor, models in table.items():
        for model, row in models.items():
            result = _price(row)
            prices = {"input", "output", "cached", "above", "long"}
            facts = {"window_tokens", "reply_tokens", "images", "reasoning"}
            assert set(row) <= prices | facts | {"efforts", "project", "patches"}, (vendor, model)
            assert set(row.get("efforts", ())) <= set(EFFORTS), (vendor, model)
            ModelSettings(**row.get("project", {}))
            assert len(facts & set(row)) in (0, 4), (vendor, model)
            assert row.get("reply_tokens", 1) <= row.get("window_tokens", 1), (vendor, model)
            assert result.input <= result.output <= pico(200), (vendor, model)
            assert result.cached is None or result.cached < result.input, (vendor, model)


def test_local_models_are_free_and_unknown_prices_are_none() -> None:
    local = tariff_of(ModelConfig("x", "ollama/anything")).charge(Usage(5, 5))
    assert (local.cost_nusd, local.model) == (0, "ollama/anything")
    assert tariff_of(ModelConfig("x", "openai/gpt-99")).charge(Usage(5, 5)).cost_nusd is None


def test_configured_prices_override_individually() -> None:
    config = ModelConfig("x", "openai/gpt-5", price_output_usd=20.0)
    assert tariff_of(config).price == price(1.25, 20, 0.125)
    unlisted = ModelConfig("x", "openai/own", price_input_usd=1.0)
    assert tariff_of(unlisted).price is None
    assert tariff_of(replace(unlisted, price_output_usd=2.0)).price == price(1, 2)


def test_configured_cache_price_keeps_the_price_of_long_requests() -> None:
    listed = listed_price("gemini", "gemini-2.5-pro")
    own = tariff_of(ModelConfig("x", "gemini/gemini-2.5-pro", price_cached_usd=0.01)).price
    assert listed is not None
    assert own == replace(listed, cached=pico(0.01))


def test_unknown_price_is_not_reported_as_zero() -> None:
    spent = UsageTotals().plus(Charge("v/m", Usage(1, 1), 5)).plus(Charge("v/n", Usage(1, 1), None))
    assert (spent.cost_nusd, spent.calls, spent.unpriced, spent.cost_usd) == (5, 2, 1, None)


@pytest.mark.parametrize(
    ("cost_nusd", "text"),
    [
        (0, "$0.00"),
        (1, "under $0.0001"),
        (4_200_000, "$0.0042"),
        (1_500_000_000, "$1.50"),
        (1_234_567_000_000, "$1,234.57"),
    ],
)
def test_money_is_formatted_for_people(cost_nusd: int, text: str) -> None:
    assert dollars(cost_nusd) == text


class Purse(InMemoryMeter):
    """A meter that allows this number of calls."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.estimates: list[Charge] = []
        self.charges: list[Charge] = []
        self._calls = calls

    async def before(self, estimate: Charge) -> tuple[str, ...]:
        self.estimates.append(estimate)
        if len(self.charges) == self._calls:
            raise LimitReached("That is enough.")
        return ("careful",) if self.charges else ()

    async def after(self, charge: Charge) -> Receipt:
        self.charges.append(charge)
        receipt = await super().after(charge)
        return replace(receipt, session=UsageTotals(Usage(99, 9), 7, 3), warnings=("nearly",))


async def test_limit_ends_the_turn_before_the_next_call(tmp_path: Path) -> None:
    agent, model = scripted([calls(call("look")), "never"], tmp_path, answers("look"))
    purse = Purse(1)
    seen, result = await run_turn(agent, replace(task(agent), meter=purse))
    assert (result.stopped, result.error_code, result.success) == ("limit", "limit", False)
    assert result.text == "That is enough."
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert len(model.requests) == 1
    notices = [event.text for event in seen if isinstance(event, events.Notice)]
    assert notices == ["nearly"]


async def test_reports_include_turn_and_session(tmp_path: Path) -> None:
    agent, _ = scripted([calls(call("look")), "done"], tmp_path, answers("look"))
    purse = Purse(9)
    seen, result = await run_turn(agent, replace(task(agent), meter=purse))
    first, last = [event for event in seen if isinstance(event, events.UsageReport)]
    assert first.usage == purse.charges[0].usage
    assert last.usage == result.usage == purse.charges[0].usage + purse.charges[1].usage
    assert (last.session_usage, last.session_cost_usd) == (Usage(99, 9), 7 / NUSD_PER_USD)
    assert (last.cost_usd, result.cost_usd) == (None, None)
    assert "careful" in [event.text for event in seen if isinstance(event, events.Notice)]


async def test_estimate_is_near_the_actual_usage(tmp_path: Path) -> None:
    agent, _ = scripted(["hello"], tmp_path)
    purse = Purse(9)
    await run_turn(agent, replace(task(agent), meter=purse))
    (estimate,), (charge,) = purse.estimates, purse.charges
    assert estimate.usage.output == 0
    # The scripted model does not count tools.
    assert estimate.usage.input > charge.usage.input * 0.8


@pytest.mark.parametrize("usage", [None, Usage(), Usage(0, 7)])
async def test_reply_without_usage_is_estimated(usage: Usage | None) -> None:
    """Some servers send the field with zeros, although no call has an empty input."""
    purse = Purse(9)
    till = CallMeter(Tariff("v/m", price(1, 1)), meter=purse)
    await till.check_call(1_000, 0)
    await till.record_reply(events.Reply(assistant("a" * 400), usage, "stop"))
    (charge,) = purse.charges
    assert charge.estimated
    assert charge.usage.input == 1_000
    assert 100 <= charge.usage.output <= 110


async def test_broken_stream_is_counted_up_to_the_break(tmp_path: Path) -> None:
    class Breaks:
        """A provider whose connection breaks in the first answer.

        The second answer is complete.
        """

        name = "breaks"
        broke = False

        async def stream(self, request: ModelRequest) -> AsyncIterator[events.ModelEvent]:
            yield events.TextDelta("half of an answer, which is void when it is asked again")
            if not self.broke:
                self.broke = True
                raise Unavailable("the connection broke")
            yield events.Reply(assistant("whole"), Usage(500, 2), "stop")

        async def aclose(self) -> None:
            return

    async def at_once(seconds: float) -> None:
        return

    purse = Purse(9)
    agent = Agent(RetryingProvider(Breaks(), sleep=at_once), workspace=tmp_path)
    _, result = await run_turn(agent, replace(task(agent), meter=purse))
    broken, whole = purse.charges
    assert broken.estimated
    assert broken.usage.input == purse.estimates[0].usage.input
    assert 10 <= broken.usage.output <= 20
    assert (whole.usage, whole.estimated) == (Usage(500, 2), False)
    assert result.usage == broken.usage + whole.usage


async def test_call_without_any_output_costs_nothing(tmp_path: Path) -> None:
    purse = Purse(9)
    agent = Agent(ScriptedProvider([Unavailable("down")]), workspace=tmp_path)
    await run_turn(agent, replace(task(agent), meter=purse))
    assert len(purse.estimates) == 1
    assert purse.charges == []


async def test_reply_of_the_fallback_has_the_price_of_the_fallback() -> None:
    down = ScriptedProvider([Unavailable("down")])
    provider = RetryingProvider(
        [ModelCandidate(down), ModelCandidate(ScriptedProvider(["hi"]), "cheap", rank=1)],
        attempts=1,
    )
    purse = Purse(9)
    till = CallMeter(Tariff("v/dear", price(10, 10)), [Tariff("v/cheap", price(1, 1))], purse)
    async for event in provider.stream(ModelRequest("dear", "", ())):
        if isinstance(event, events.Reply):
            await till.record_reply(event)
    assert [charge.model for charge in purse.charges] == ["v/cheap"]


async def test_offline_model_is_free(tmp_path: Path) -> None:
    result = await Agent("offline/echo", workspace=tmp_path).run("hi")
    assert result.cost_usd == 0.0
    assert result.usage.input > 0
