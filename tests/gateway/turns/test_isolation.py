"""Turns that are interrupted repeatedly."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.context.history_validation import is_valid
from gateway.resources import Timing
from gateway.turns.isolation import NEWCOMERS_WAIT_S
from tests.fakes.gated import Gated
from tests.gateway.parts import Parts, accept_messages, chat_message, running, wait_until

CHATS = [str(n) for n in range(1, 13)]


@asynccontextmanager
async def process_until_requests(
    folder: Path, model: Gated, *, request_count: int
) -> AsyncIterator[Parts]:
    """Run a process that is killed after `request_count` requests to the model."""
    async with running(folder, model) as parts:
        yield parts
        await wait_until(lambda: len(model.texts) >= request_count)


async def test_consecutive_kills_abandon_none_of_several_turns(tmp_path: Path) -> None:
    async with process_until_requests(tmp_path, Gated(), request_count=12) as parts:
        await accept_messages(parts, *(chat_message(f"job {chat}", chat) for chat in CHATS))
    for _ in range(6):
        async with process_until_requests(tmp_path, Gated(), request_count=1):
            pass
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        for chat in CHATS:
            assert await parts.platform.answers(chat, 1) == [f"re: job {chat}"]


async def test_turn_that_crashes_the_process_is_isolated(
    tmp_path: Path,
) -> None:
    async with process_until_requests(tmp_path, Gated(), request_count=12) as parts:
        await accept_messages(
            parts, *(chat_message("job" if chat != "5" else "bad", chat) for chat in CHATS)
        )
    answers: dict[str, str] = {}
    for _ in range(10):
        # Every message is answered except the one that ends the process.
        model = Gated(is_open=lambda text: text == "job")
        async with running(tmp_path, model) as parts:
            platform = parts.platform
            await wait_until(lambda: "bad" in model.texts or platform.chats["5"])  # noqa: B023
            answers |= {chat: shown[-1].text for chat, shown in platform.chats.items() if shown}
        if "5" in answers:
            break
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await parts.until_count(0, "turn", state="running")
        assert (await parts.stored("turn", "lane", state="dead")) == [("chat:bot:5",)]
    assert answers["5"].startswith("⚠️ I stopped working on this message")


async def test_suspects_continue_one_at_a_time_before_new_turns(tmp_path: Path) -> None:
    async with process_until_requests(tmp_path, Gated(), request_count=2) as parts:
        await accept_messages(parts, chat_message("one"), chat_message("two", "2"))
    async with process_until_requests(tmp_path, Gated(), request_count=2):
        pass
    timing = Timing(newcomers_wait_s=600)
    async with running(tmp_path, alone := Gated(), timing=timing) as parts:
        await wait_until(lambda: alone.texts)
        await accept_messages(parts, chat_message("new", "3"))
        (first,) = alone.texts
        second = "two" if first == "one" else "one"
        alone.let_go(first)
        await alone.wait_for_text(second)
        assert alone.texts == [first, second]
        alone.let_go()
        for chat in ("1", "2", "3"):
            await parts.platform.answers(chat, 1)


async def test_new_chat_is_answered_while_suspects_run(tmp_path: Path) -> None:
    """After two kills, half of 20 turns with a slow model continue at once."""
    chats = [str(n) for n in range(20)]
    async with process_until_requests(tmp_path, Gated(), request_count=20) as parts:
        await accept_messages(parts, *(chat_message(f"slow {chat}", chat) for chat in chats))
    async with process_until_requests(tmp_path, Gated(), request_count=20):
        pass
    began_at = time.monotonic()
    async with running(tmp_path, model := Gated(is_open=lambda text: text == "new")) as parts:
        await accept_messages(parts, chat_message("new", "unrelated"))
        assert await parts.platform.answers("unrelated", 1) == ["re: new"]
        # Allow for a busy machine.
        assert time.monotonic() - began_at < 3 * NEWCOMERS_WAIT_S
        assert model.running == 10
        model.let_go()
        for chat in chats:
            assert await parts.platform.answers(chat, 1) == [f"re: slow {chat}"]


async def test_turn_that_crashes_a_busy_process_is_isolated(tmp_path: Path) -> None:
    """Each process ends only once a new chat is being answered in parallel with the suspects."""
    async with process_until_requests(tmp_path, Gated(), request_count=12) as parts:
        await accept_messages(
            parts, *(chat_message("job" if chat != "5" else "bad", chat) for chat in CHATS)
        )
    shown: dict[str, str] = {}
    timing = Timing(newcomers_wait_s=0)
    for n in range(12):
        # New chats of earlier processes are answered before the suspects continue.
        model = Gated(is_open=lambda text, n=n: text not in ("bad", f"new {n}"))
        async with running(tmp_path, model, timing=timing) as parts:
            await accept_messages(parts, chat_message(f"new {n}", f"new {n}"))
            await model.wait_for_text(f"new {n}")
            platform = parts.platform
            await wait_until(lambda: "bad" in model.texts or platform.chats["5"])  # noqa: B023
            shown |= {chat: result[-1].text for chat, result in platform.chats.items() if result}
        if "5" in shown:
            break
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await parts.until_count(0, "turn", state="running")
        assert (await parts.stored("turn", "lane", state="dead")) == [("chat:bot:5",)]
    assert shown["5"].startswith("⚠️ I stopped working on this message")


async def test_abandoned_turn_is_closed_in_the_history(tmp_path: Path) -> None:
    async with process_until_requests(tmp_path, Gated(), request_count=1) as parts:
        await accept_messages(parts, chat_message("bad"))
    for _ in range(2):
        async with process_until_requests(tmp_path, Gated(), request_count=1):
            pass
    async with running(tmp_path, Gated()) as parts:
        await parts.platform.answers("1", 1)
        (session,) = await parts.service.list_sessions()
        messages = await parts.service.load_messages(session.id)
        assert is_valid(messages)
        assert [message.role for message in messages] == ["user", "assistant"]
        assert "check the actual state" in messages[-1].text
