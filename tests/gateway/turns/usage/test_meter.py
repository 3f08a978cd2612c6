"""Spending on a real database, with a fake model that reports the usage of each reply."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agent import events
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.types import user
from gateway.config.sections import LimitsSection
from gateway.core.messages import Sender
from gateway.core.records import ModelCall
from gateway.resources import Timing
from gateway.store.repositories import usage as store
from gateway.turns.usage.limits import BillingDay
from gateway.turns.usage.reservations import MemoryReservations, Reservations, StoredReservations
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript, refusal
from tests.gateway.parts import (
    accept_messages,
    cancel_and_wait,
    chat_message,
    console_message,
    running,
)

_calls = count()


def says(text: str, usd: float) -> ReplyScript:
    """Return a reply of this cost, at one dollar per million tokens."""
    return ReplyScript(text=text, usage=used(usd))


def calls(usd: float) -> ReplyScript:
    """Return a reply that calls a tool."""
    call = Call("read_file", {"path": f"none{next(_calls)}.txt"})
    return ReplyScript(tool_calls=(call,), usage=used(usd))


def used(usd: float) -> dict[str, Any]:
    tokens = round(usd * 1_000_000)
    return {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}


Priced = Callable[..., ModelPool]


@pytest.fixture
async def models(model_server: ModelServer) -> AsyncIterator[Priced]:
    """Return a factory of pools with the fake model, by its price per million tokens.

    The price is unknown if it is None.
    """
    opened: list[ModelPool] = []

    def priced(usd: float | None = 1.0) -> ModelPool:
        entry = ModelConfig(
            "m",
            "openai/fake",
            api_base=model_server.base_url,
            api_key="k",
            price_input_usd=usd,
            price_output_usd=usd,
        )
        opened.append(ModelPool("m", [entry]))
        return opened[-1]

    yield priced
    for item in opened:
        await item.aclose()


@dataclass
class Clock:
    """Clock that a test sets."""

    now: float = field(default_factory=lambda: datetime(2027, 1, 15, 12).timestamp())

    def __call__(self) -> float:
        return self.now


def limits(clock: Callable[[], float] | None = None, **most: Any) -> dict[str, Any]:
    """Return arguments of `running` for these limits."""
    sections = {"settings": {"limits": LimitsSection(**most)}}
    return sections | ({"timing": Timing(usage_clock=clock)} if clock else {})


async def test_every_reply_is_charged_before_it_is_used(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(calls(0.1), says("done", 0.2))
    async with running(tmp_path, models()) as parts:
        await accept_messages(parts, chat_message("go"))
        assert await parts.platform.answers("1", 1) == ["done"]
        rows = await parts.stored(
            "usage", "turn_id", "n", "lane", "chat", "principal", "model", "input", "cost_nusd"
        )
        place = ("chat:bot:1", "chat:bot:1", "chat:7", "openai/fake")
        assert rows == [
            (1, 1, *place, 100_000, 100_000_000),
            (1, 2, *place, 200_000, 200_000_000),
        ]


async def test_charges_survive_a_kill(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(calls(0.1), ReplyScript(text="never", latency_s=60))
    async with running(tmp_path, models()) as parts:
        await accept_messages(parts, chat_message("go"))
        await model_server.wait_for(lambda: len(model_server.requests) == 2)
    model_server.forget_script()
    model_server.script(says("after", 0.2))
    async with running(tmp_path, models()) as parts:
        watcher = parts.events.watch("chat:bot:1")
        with watcher as seen:
            assert await parts.platform.answers("1", 1) == ["after"]
            parts.events.close()
            reports = [e async for e in seen if isinstance(e, events.UsageReport)]
        assert [report.cost_usd for report in reports] == [0.3]
        assert reports[0].session_usage is not None
        assert reports[0].session_usage.input == 300_000


async def test_turn_stops_before_a_call_beyond_its_limit(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(*(calls(0.1) for _ in range(9)))
    limited = limits(cost_per_turn_usd=0.25)
    async with running(tmp_path, models(), **limited) as parts:
        await accept_messages(parts, chat_message("go"))
        warning, answer = await parts.platform.answers("1", 2)
        assert warning == (
            "⚠️ $0.2000 of $0.2500 for one message used. This limit resets with your next message."
        )
        assert answer == (
            "I stopped before calling the model: the limit of $0.2500 for one message is "
            "reached. $0.3000 used, and the next call needs at least "
            f"{answer.split('at least ')[1].split('. It')[0]}. It resets with your next message."
        )
        assert len(model_server.requests) == 3
        model_server.forget_script()
        model_server.script(says("fine", 0.1))
        await accept_messages(parts, chat_message("again"))
        assert (await parts.platform.answers("1", 3))[2] == "fine"


async def test_turn_with_approvals_has_one_limit(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    for name in "abcde":
        change = {"path": f"{name}.txt", "old_string": "old", "new_string": "new"}
        write = Call("edit_file", change)
        model_server.script(ReplyScript(tool_calls=(write,), usage=used(0.1)))
    limited = limits(tokens_per_turn=150_000)
    async with running(tmp_path, models(), **limited) as parts:
        with parts.events.watch("cli:local:main") as seen:
            for name in "abcde":
                (parts.workspace / f"{name}.txt").write_text("old\n")
            await parts.bus.submit(console_message("go"))
            for _ in range(2):
                await parts.until_stored("approval", state="open")
                (question,) = await parts.service.list_approvals()
                assert await parts.service.answer_approval(question.nonce, "once", "cli:0")
            done = await anext(e async for e in seen if isinstance(e, events.Done))
        assert done.result.stopped == "limit"
        # No model request follows the last wait, and spending before it still counts.
        assert done.result.usage.input == 200_000
        assert len(model_server.requests) == 2


async def test_estimate_alone_can_reach_the_limit(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    limited = limits(cost_per_turn_usd=0.0001)
    async with running(tmp_path, models(), **limited) as parts:
        await accept_messages(parts, chat_message("go"))
        (answer,) = await parts.platform.answers("1", 1)
        assert "the limit of $0.0001 for one message is reached. $0.00 used" in answer
        assert model_server.requests == []


async def test_new_conversation_ends_the_limit_of_the_old_one(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(says("one", 0.1), says("two", 0.1), says("three", 0.1))
    limited = limits(cost_per_session_usd=0.15)
    async with running(tmp_path, models(), **limited) as parts:
        for n, text in enumerate(("a", "b", "c"), start=1):
            await accept_messages(parts, chat_message(text))
            await parts.platform.answers("1", n + (n > 1))
        assert "for one conversation is reached" in parts.platform.texts("1")[-1]
        await accept_messages(parts, chat_message("/new"), chat_message("d"))
        assert (await parts.platform.answers("1", 6))[-1] == "three"


async def test_chat_has_its_own_daily_limit_until_midnight(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    clock = Clock()
    model_server.script(says("one", 0.2), says("other", 0.1), says("tomorrow", 0.1))
    limited = limits(clock, cost_per_chat_day_usd=0.15)
    async with running(tmp_path, models(), **limited) as parts:
        await accept_messages(parts, chat_message("a", chat_id="5", thread_id="9"))
        await parts.platform.until(lambda: "one" in parts.platform.texts("5"))
        # The same chat, in another topic
        await accept_messages(parts, chat_message("b", chat_id="5"))
        await parts.platform.until(lambda: len(parts.platform.texts("5")) == 3)
        assert "for this chat today is reached" in parts.platform.texts("5")[-1]
        assert "at midnight (2027-01-16 00:00" in parts.platform.texts("5")[-1]
        await accept_messages(parts, chat_message("c", chat="6"))
        assert (await parts.platform.answers("6", 1))[-1] == "other"
        clock.now += 13 * 3600
        await accept_messages(parts, chat_message("d", chat_id="5"))
        await parts.platform.until(lambda: "tomorrow" in parts.platform.texts("5"))


async def test_owner_is_notified_once_of_the_daily_limit(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(says("hi", 0.01), says("one", 0.1))
    limited = limits(cost_per_day_usd=0.1)
    owner = {"sender": Sender("42", "Owner"), "chat_id": "42"}
    async with running(tmp_path, models(), owner="chat:42", **limited) as parts:
        await accept_messages(parts, chat_message("hello", **owner))
        assert await parts.platform.answers("42", 1) == ["hi"]
        for n, text in enumerate(("a", "b", "c"), start=1):
            await accept_messages(parts, chat_message(text))
            await parts.platform.answers("1", n + 1)
        warning, result, *refused = parts.platform.texts("1")
        assert sorted((result, warning[:2])) == ["one", "⚠️"]
        assert all("for all chats today is reached" in text for text in refused)
        answers = await parts.platform.answers("42", 2)
        assert answers[1].startswith("⚠️ The limit of $0.1000 for all chats today is reached")
        assert "`limits.cost_per_day_usd`" in answers[1]
        assert len(answers) == 2
        assert len(model_server.requests) == 2


EACH_KIND = pytest.mark.parametrize("kind", [MemoryReservations, StoredReservations])


@EACH_KIND
async def test_concurrent_chats_cannot_exceed_the_limit(
    tmp_path: Path, model_server: ModelServer, models: Priced, kind: type[Reservations]
) -> None:
    """The minimum cost of a running call counts towards the limits of other chats."""
    (tmp_path / "one").mkdir()
    low = limits(cost_per_day_usd=0.01)
    async with running(tmp_path / "one", models(2000.0), **low) as parts:
        await accept_messages(parts, chat_message("a"))
        (refusal,) = await parts.platform.answers("1", 1)
        least = float(refusal.split("at least $")[1].split(". It resets")[0])
    model_server.script(ReplyScript(text="slow", latency_s=60))
    limited = limits(cost_per_day_usd=1.5 * least)
    async with running(tmp_path, models(2000.0), reservations=kind, **limited) as parts:
        await accept_messages(parts, chat_message("a"))
        await model_server.wait_for(lambda: len(model_server.requests) == 1)
        await accept_messages(parts, chat_message("a", chat="2"))
        (refusal,) = await parts.platform.answers("2", 1)
        assert "is reached" in refusal
        assert len(model_server.requests) == 1
        assert await parts.stored("usage") == []


@EACH_KIND
async def test_reservation_of_a_stopped_call_is_released(
    tmp_path: Path, model_server: ModelServer, models: Priced, kind: type[Reservations]
) -> None:
    model_server.script(ReplyScript(text="slow", latency_s=60), says("fine", 0.001))
    limited = limits(cost_per_day_usd=5.0)
    async with running(tmp_path, models(1000.0), reservations=kind, **limited) as parts:
        await accept_messages(parts, chat_message("a"))
        await model_server.wait_for(lambda: len(model_server.requests) == 1)
        await parts.service.stop_turn("chat:bot:1")
        assert await parts.platform.answers("1", 1) == ["⏹ Stopped."]
        await accept_messages(parts, chat_message("b", chat="2"))
        assert (await parts.platform.answers("2", 1))[0] == "fine"


async def test_interrupted_api_call_releases_its_reservation(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(ReplyScript(text="slow", latency_s=60), says("fine", 0.001))
    async with running(tmp_path, models(1000.0), **limits(cost_per_day_usd=5.0)) as parts:
        call = ModelCall("m", "", (user("hi"),), max_tokens=4_000)

        async def read_reply() -> list[Any]:
            async with parts.service.call_model(call) as items:
                return [item async for item in items]

        broken = asyncio.ensure_future(read_reply())
        await model_server.wait_for(lambda: len(model_server.requests) == 1)
        await cancel_and_wait(broken)
        await accept_messages(parts, chat_message("b"))
        assert (await parts.platform.answers("1", 1))[0] == "fine"


@pytest.mark.parametrize(
    ("second", "reason", "turns"),
    [(ReplyScript(text="More.", usage=used(0.5)), "cost", 2), (calls(0.5), "limit", 2)],
    ids=["after the turn", "within the turn"],
)
async def test_cost_of_a_goal_counts_its_turns_and_checks(
    tmp_path: Path,
    models: Priced,
    model_server: ModelServer,
    second: ReplyScript,
    reason: str,
    turns: int,
) -> None:
    verdict = json.dumps({"met": False, "missing": "the rest"})
    judged = ReplyScript(text=verdict, usage=used(0.3))
    model_server.script(ReplyScript(text="Begun.", usage=used(0.5)), judged, second, judged)
    async with running(tmp_path, models(), owner="chat:7") as parts:
        await accept_messages(parts, chat_message("/goal all tests pass --cost 1"))
        await parts.until_stored("goal", state="paused", reason=reason, turns=turns)


async def test_unknown_price_is_reported_once_and_token_limits_apply(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(calls(0.16), says("one", 0.01))
    limited = limits(cost_per_turn_usd=0.01, tokens_per_turn=150_000)
    async with running(tmp_path, models(None), **limited) as parts:
        with parts.events.watch("chat:bot:1") as seen:
            await accept_messages(parts, chat_message("go"))
            await parts.platform.until(
                lambda: "limit of 150,000 tokens" in " ".join(parts.platform.texts("1"))
            )
            await accept_messages(parts, chat_message("again"))
            await parts.platform.until(lambda: "one" in parts.platform.texts("1"))
            parts.events.close()
            texts = [e.text async for e in seen if isinstance(e, events.Notice)]
        assert [text for text in texts if "price of openai/fake is unknown" in text] == texts[:1]
        assert await parts.stored("usage", "cost_nusd", distinct=True) == [(None,)]


async def test_run_may_set_its_own_limit(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(*(calls(0.1) for _ in range(9)))
    async with running(tmp_path, models()) as parts:
        with parts.events.watch("cli:local:main") as seen:
            await parts.bus.submit(console_message("go", options={"max_cost_usd": 0.15}))
            async for event in seen:
                if isinstance(event, events.Done):
                    break
        assert (event.result.stopped, event.result.error_code) == ("limit", "limit")
        assert event.result.cost_usd == 0.2
        assert len(model_server.requests) == 2
        # The terminal has received the event and gets no additional message.
        await parts.until_stored("turn", state="done")
        assert await parts.stored("outbox", "kind") == [("final",)]


async def test_cost_command_shows_a_chat_its_own_costs_and_the_owner_all(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(says("one", 0.1), says("two", 0.2), says("mine", 0.5))
    async with running(tmp_path, models(), owner="chat:42") as parts:
        await accept_messages(parts, chat_message("a"), chat_message("/new"))
        await parts.platform.answers("1", 2)
        await accept_messages(parts, chat_message("b"))
        await parts.platform.answers("1", 3)
        await accept_messages(parts, chat_message("/cost"))
        assert (await parts.platform.answers("1", 4))[-1].splitlines() == [
            "Last answer: $0.2000, 200,000 tokens in, 0 out",
            "This conversation: $0.2000, 200,000 tokens in, 0 out",
            "This chat today: $0.3000, 300,000 tokens in, 0 out",
        ]
        owner = {"sender": Sender("42", "Owner"), "chat_id": "42"}
        await accept_messages(parts, chat_message("c", **owner))
        await parts.platform.answers("42", 1)
        await accept_messages(parts, chat_message("/cost", **owner))
        text = (await parts.platform.answers("42", 2))[-1]
        assert text.splitlines()[-1] == "All chats today: $0.8000, 800,000 tokens in, 0 out"
        # Not in a chat with other readers
        await accept_messages(
            parts, chat_message("/cost", chat="1", sender=Sender("42"), private=False)
        )
        assert "All chats" not in (await parts.platform.answers("1", 5))[-1]
        status = await parts.service.status()
        assert status["spent_today"]["cost_usd"] == 0.8


async def test_unknown_cost_is_reported_as_unknown(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(says("one", 0.1))
    async with running(tmp_path, models(None)) as parts:
        await accept_messages(parts, chat_message("a"))
        await parts.platform.answers("1", 1)
        await accept_messages(parts, chat_message("/cost"))
        text = (await parts.platform.answers("1", 2))[-1]
        assert "Last answer: cost unknown, 100,000 tokens in" in text
        assert "$" not in text
        status = await parts.service.status()
        assert status["spent_today"]["cost_usd"] is None


async def test_thousand_charges_add_up_exactly(tmp_path: Path) -> None:
    from agent.providers.usage import Charge
    from agent.types import Usage

    async with running(tmp_path, ["hi"]) as parts:
        await accept_messages(parts, chat_message("a"))
        await parts.platform.answers("1", 1)
        payer = store.payer(1, "s", chat_message("a"))

        def fill(connection: Any) -> None:
            for n in range(1_000):
                store.record(connection, payer, Charge("v/m", Usage(1, 1), 100_000_001), float(n))

        await parts.database.transact(fill)
        spent = await parts.database.transact(store.of_session, "s")
        assert (spent.cost_nusd, spent.calls) == (100_000_001_000, 1_000)
        later = await parts.database.transact(store.of_chat, payer.chat, 500.0)
        assert later.calls == 501  # including the call of the turn


@pytest.mark.parametrize("hour", [0, 12, 23])
def test_day_begins_and_ends_at_midnight(hour: int) -> None:
    day = BillingDay.of(datetime(2027, 3, 28, hour, 30).timestamp())
    assert day.began_at == datetime(2027, 3, 28).timestamp()
    assert day.name == "2027-03-28"
    assert "2027-03-29 00:00" in day.end_text


async def test_concurrent_turns_are_charged_to_their_own_chat(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(*(says(f"r{n}", 0.01) for n in range(20)))
    async with running(tmp_path, models()) as parts:
        await accept_messages(parts, *(chat_message("x", chat=str(n)) for n in range(20)))
        async with asyncio.timeout(20):
            for n in range(20):
                await parts.platform.answers(str(n), 1)
        costs: dict[str, int] = {}
        for chat, nano_usd in await parts.stored("usage", "chat", "cost_nusd"):
            costs[chat] = costs.get(chat, 0) + nano_usd
        assert set(costs.values()) == {10_000_000}
        assert len(costs) == 20


async def test_free_model_does_not_bypass_the_limit_of_a_paid_fallback(
    tmp_path: Path, model_server: ModelServer
) -> None:
    wrong_key = refusal(401, "no such key")
    model_server.script(wrong_key, says("paid", 0.2), wrong_key, says("too much", 0.2))
    place = {"api_base": model_server.base_url, "api_key": "k"}
    free = ModelConfig("free", "openai/free", price_input_usd=0, price_output_usd=0, **place)
    paid = ModelConfig("paid", "openai/paid", price_input_usd=1, price_output_usd=1, **place)
    models = ModelPool("free", [free, paid], fallbacks=["paid"])
    async with running(tmp_path, models, **limits(cost_per_chat_day_usd=0.2)) as parts:
        await accept_messages(parts, chat_message("a"))
        await parts.platform.until(lambda: "paid" in parts.platform.texts("1"))
        await accept_messages(parts, chat_message("b"))
        await parts.platform.until(lambda: "is reached" in parts.platform.texts("1")[-1])
        assert len(model_server.requests) == 3
        # A free model still answers.
        model_server.forget_script()
        model_server.script(says("free", 0.2))
        await accept_messages(parts, chat_message("c"))
        await parts.platform.until(lambda: "free" in parts.platform.texts("1"))
    await models.aclose()


async def test_zero_limit_allows_free_models_without_notices(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    model_server.script(says("free", 0.1))
    nothing = limits(cost_per_turn_usd=0.0, cost_per_day_usd=0.0)
    owner = {"owner": "chat:7", **nothing}
    async with running(tmp_path, models(0.0), **owner) as parts:
        await accept_messages(parts, chat_message("a", "7"))
        await parts.platform.until(lambda: "free" in parts.platform.texts("7"))
        assert await parts.stored("outbox", "kind") == [("final",)]


async def test_tokens_of_a_stopped_reply_are_charged(
    tmp_path: Path, model_server: ModelServer, models: Priced
) -> None:
    long = ReplyScript(text="word " * 4_000, pieces=1_000, chunk_delay_s=0.02)
    model_server.script(long, says("never", 0.1))
    # Enough for one request with all tools, but not for two.
    async with running(tmp_path, models(1000.0), **limits(cost_per_day_usd=1.8)) as parts:
        with parts.events.watch("chat:bot:1") as seen:
            await accept_messages(parts, chat_message("go"))
            async for event in seen:
                if isinstance(event, events.TextDelta):
                    break
        await parts.service.stop_turn("chat:bot:1")
        await parts.until_stored("turn", state="done")
        ((input_, output, estimated),) = await parts.stored(
            "usage", "input", "output", "is_estimated"
        )
        assert input_ > 100
        assert 1 <= output < 4_000
        assert estimated
        await accept_messages(parts, chat_message("again"))
        await parts.platform.until(lambda: "is reached" in " ".join(parts.platform.texts("1")))
        assert len(model_server.requests) == 1
